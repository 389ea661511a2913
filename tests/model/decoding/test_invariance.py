"""A translation does not depend on the rest of the batch, on real sentences and a trained network.

Each sentence is decoded alone, then with thousands of others: all at once, and as in a service: in any
order, a few arriving between two steps, within a tight budget, with others that are cancelled midway.
The native library must give the same hypotheses to the last bit of every score. PyTorch's products are
summed in an order that depends on the size of the batch, so that the last bits differ there and a tie
can fall either way: such cases are counted, and must be ties.
"""

import dataclasses
import os
import random
from collections.abc import Sequence
from functools import cache

import pytest

from model.checkpoint.folder import Checkpoint, load_checkpoint
from model.decode_request import DecodeOptions, DecodeRequest, Hypothesis
from model.decoding.device import Precision
from model.decoding.engine import DecodingEngine
from model.decoding.factory import EngineFactory, engine_factory, torch_factory
from model.decoding.runner import Result
from model.decoding.sentence import Sentence
from tests.embedded import EMBEDDED
from tests.model.decoding.everyday_sentences import ENVIRONMENT, everyday_sentences
from tests.model.native_library import needs_native

STRATEGIES = {
    "greedy": DecodeOptions(strategy="greedy"),
    "beam": DecodeOptions(strategy="beam", beam_size=4, num_hypotheses=2),
    "sample": DecodeOptions(strategy="sample", seed=17, temperature=0.8),
}
FEW, MANY = 6, 2000
FEW_IN_TORCH, MANY_IN_TORCH = 2, 200
takes_minutes = pytest.mark.skipif(
    ENVIRONMENT not in os.environ, reason=f"takes minutes: {ENVIRONMENT}=made asks for it"
)
_UNWANTED = -1


@cache
def checkpoint() -> Checkpoint:
    return load_checkpoint(EMBEDDED)


@cache
def native(precision: str) -> EngineFactory:
    return engine_factory(checkpoint(), device="cpu", precision=precision)


@cache
def torch(precision: Precision) -> EngineFactory:
    return torch_factory(checkpoint(), "cpu", precision)


def requests_for(count: int, *, seed: int = 0) -> list[DecodeRequest]:
    """Every sentence with every strategy, each draw with a seed of its own."""
    encode = checkpoint().tokenizer.encode
    ids = [tuple(encode(sentence, target_language="fr")) for sentence in everyday_sentences(count)]
    return [
        DecodeRequest(source, dataclasses.replace(options, seed=seed + number))
        for number, source in enumerate(ids)
        for options in STRATEGIES.values()
    ]


def alone(engine: DecodingEngine, requests: Sequence[DecodeRequest]) -> list[Result]:
    return [engine.decode([request])[0] for request in requests]


def in_traffic(engine: DecodingEngine, requests: Sequence[DecodeRequest]) -> list[Result]:
    """Arrivals in a random order, a few between two steps; as many others are cancelled midway."""
    chance = random.Random(5)
    waiting = [*enumerate(requests), *((_UNWANTED, request) for request in requests)]
    chance.shuffle(waiting)
    index_of: dict[Sentence, int] = {}
    unwanted: list[Sentence] = []
    results: dict[int, Result] = {}
    while len(results) < len(requests):
        for _ in range(chance.choice((0, 1, 2, 9))):
            if waiting and engine.fits(waiting[-1][1]):
                place, request = waiting.pop()
                sentence = engine.add(request)
                index_of[sentence] = place
                if place == _UNWANTED:
                    unwanted.append(sentence)
        while unwanted and chance.random() < 0.5:
            engine.cancel(unwanted.pop(chance.randrange(len(unwanted))))
        for sentence, result in engine.step(max_steps=chance.randint(1, 4)).finished:
            if index_of[sentence] != _UNWANTED:
                results[index_of[sentence]] = result
    return [results[place] for place in range(len(requests))]


def check_native(precision: str, count: int) -> None:
    requests = requests_for(count)
    expected = alone(native(precision).make(), requests)
    assert native(precision).make().decode(requests) == expected
    tight = native(precision).make(max_batch_tokens=400, max_encode_tokens=40)
    assert in_traffic(tight, requests) == expected


@needs_native
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_natively_it_is_equal_to_the_last_bit(precision: str) -> None:
    check_native(precision, FEW)


@needs_native
@pytest.mark.slow
@takes_minutes
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_natively_it_is_equal_to_the_last_bit_for_many_sentences(precision: str) -> None:
    check_native(precision, MANY)


def check_torch(count: int, allowed: int) -> None:
    requests = requests_for(count)
    expected = alone(torch("float32").make(), requests)
    tight = torch("float32").make(max_batch_tokens=400, max_encode_tokens=40)
    for results in (torch("float32").make().decode(requests), in_traffic(tight, requests)):
        differing = [
            pair for pair in zip(expected, results, strict=True) if tokens(pair[0]) != tokens(pair[1])
        ]
        assert len(differing) <= allowed
        for request, pair in zip(requests, zip(expected, results, strict=True), strict=True):
            assert_close_decisions(request, *map(best, pair))


def best(result: Result) -> Hypothesis:
    assert isinstance(result, list), result
    return result[0]


def tokens(result: Result) -> list[tuple[int, ...]]:
    assert isinstance(result, list), result
    return [hypothesis.token_ids for hypothesis in result]


def assert_close_decisions(request: DecodeRequest, one: Hypothesis, other: Hypothesis) -> None:
    """The same probabilities up to the first other choice; and where that was the likeliest, a tie."""
    pairs = zip(one.token_ids, other.token_ids, strict=False)
    shared = next(
        (n for n, (a, b) in enumerate(pairs) if a != b), min(len(one.token_ids), len(other.token_ids))
    )
    length = shared + 1 if request.options.strategy == "greedy" else shared
    ours, theirs = one.token_log_probabilities[:length], other.token_log_probabilities[:length]
    assert ours == pytest.approx(theirs, abs=1e-3)


def test_in_torch_only_ties_fall_otherwise() -> None:
    check_torch(FEW_IN_TORCH, allowed=1)


@pytest.mark.slow
@takes_minutes
def test_in_torch_only_ties_fall_otherwise_among_many_sentences() -> None:
    check_torch(MANY_IN_TORCH, allowed=6)
