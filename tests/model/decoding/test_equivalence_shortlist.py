"""A shortlist is the vocabulary of its sentence, in every runner, and of no other sentence."""

import dataclasses
import random
from collections.abc import Callable, Collection, Sequence
from functools import cache

import pytest
import torch

from model.decode_request import Hypothesis
from model.decoding.engine import DecodingEngine
from model.decoding.native_runner import NativeRunner
from model.decoding.pytorch.static_runner import StaticRunner
from model.decoding.pytorch.torch_runner import TorchRunner
from model.decoding.runner import Interrupt, Result, Runner
from model.decoding.sentence import Sentence
from model.native.binding import Library
from model.native.build import VARIANTS
from model.network.transformer import Transformer
from tests.model.decoding.arrivals import finish
from tests.model.decoding.comparison import assert_same
from tests.model.decoding.networks import EOS, VOCAB, lively_network, request, sentences
from tests.model.decoding.reference import INF, ReferenceDecoder, Tokens
from tests.model.decoding.test_equivalence_reference import many_requests
from tests.model.native_library import fastest_library, native_library, native_network
from tests.model.shortlists import shortlist_of, small_shortlist


class ShortlistedReference(ReferenceDecoder):
    """Knows only the candidates; probabilities of theirs add up to 1."""

    def __init__(self, network: Transformer, candidates: Collection[int]) -> None:
        super().__init__(network)
        self._decoded = {}
        self._candidates = sorted(candidates)

    def log_probs(self, source: Tokens, target: Tokens) -> list[float]:
        everything = torch.tensor(super().log_probs(source, target))
        narrow = torch.full_like(everything, -INF)
        narrow[self._candidates] = everything[self._candidates].log_softmax(0)
        return narrow.tolist()


NETWORK, SHORTLIST = lively_network(1), small_shortlist()
REQUESTS = many_requests(1)


def reference_result(network: Transformer, sentence: Sentence) -> list[Hypothesis]:
    assert sentence.candidates is not None
    return ShortlistedReference(network, sentence.candidates.tolist()).decode(sentence.request)


def admitted() -> list[Sentence]:
    return [Sentence.admit(asked, NETWORK.config, SHORTLIST) for asked in REQUESTS]


@cache
def reference_results() -> list[list[Hypothesis]]:
    return [reference_result(NETWORK, sentence) for sentence in admitted()]


def decode(runner: Runner, sentences: Sequence[Sentence]) -> list[Result]:
    runner.admit(sentences)
    results = finish(runner)
    return [results[sentence] for sentence in sentences]


def native_runner(
    network: Transformer, library: Library | None = None, precision: str = "float32"
) -> NativeRunner:
    chosen = library or fastest_library()
    native = native_network(network, precision, library=chosen)
    return NativeRunner(native, max_rows=256, max_kv_slots=8192)


def torch_runner(network: Transformer) -> TorchRunner:
    return TorchRunner(network, max_rows=64)


def static_runner(network: Transformer) -> StaticRunner:
    return StaticRunner(network, "cpu", max_rows=64, widths=(1, 4), capacity=256)


@pytest.mark.parametrize("new_runner", [torch_runner, static_runner, *VARIANTS])
def test_every_strategy_produces_only_its_candidates(
    new_runner: Callable[[Transformer], Runner] | str,
) -> None:
    if isinstance(new_runner, str):
        runner: Runner = native_runner(NETWORK, native_library(new_runner))
    else:
        runner = new_runner(NETWORK)
    for result, hypotheses in zip(decode(runner, admitted()), reference_results(), strict=True):
        assert_same(result, hypotheses)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_company_with_and_without_candidates_changes_no_bit(precision: str, library: Library) -> None:
    runner, shuffled = native_runner(NETWORK, library, precision), random.Random(2)
    narrow = admitted()
    everyone = [*narrow, *(dataclasses.replace(sentence, candidates=None) for sentence in narrow)]
    alone = [decode(runner, [sentence])[0] for sentence in everyone]
    for count in (2, 3, 5, 30):
        order = shuffled.sample(range(len(everyone)), k=count)
        for place, result in zip(order, decode(runner, [everyone[i] for i in order]), strict=True):
            assert result == alone[place]


def test_a_vocabulary_that_is_mostly_not_wanted_serves_many_after_one_another() -> None:
    """Columns of the projection are copied, kept for the next sentence, overwritten and moved together."""
    network = lively_network(4, source_vocab_size=VOCAB, target_vocab_size=200)
    runner = native_runner(network)
    chosen = random.Random(5)
    lists = [chosen.sample(range(4, 200), 8) for _ in range(VOCAB)]
    shortlist = shortlist_of([EOS], lists)
    batch = [
        Sentence.admit(request(source, beam_size=2, min_length=4, max_length=6), network.config, shortlist)
        for source in sentences(*[2, 5, 3, 4] * 6)
    ]
    expected = [reference_result(network, sentence) for sentence in batch]
    results: dict[Sentence, Result] = {}
    for first in range(0, len(batch), 4):
        for sentence in batch[first : first + 4]:
            runner.admit([sentence])
            results.update(runner.advance(Interrupt(), 1).finished)
        while len(results) < first + 3:
            results.update(runner.advance(Interrupt(), 1).finished)
    results |= finish(runner)
    for sentence, hypotheses in zip(batch, expected, strict=True):
        assert_same(results[sentence], hypotheses)


@pytest.mark.parametrize("options", [{"strategy": "greedy"}, {"beam_size": 3}])
def test_a_beginning_that_no_source_token_suggests_is_kept(options: dict[str, object]) -> None:
    network, shortlist = lively_network(), shortlist_of([EOS, 4], [[5]] * VOCAB)
    prefix = (12, 8, 12)
    asked = request((6, 7, EOS), prefix=prefix, min_length=6, max_length=8, **options)
    sentence = Sentence.admit(asked, network.config, shortlist)
    for runner in (native_runner(network), TorchRunner(network, max_rows=64)):
        (result,) = decode(runner, [sentence])
        assert_same(result, reference_result(network, sentence))
        assert result[0].token_ids[:3] == prefix
        assert {*result[0].token_ids} <= {4, 5, 8, 12}


def test_a_stable_prefix_has_tokens_of_the_vocabulary() -> None:
    network, shortlist = lively_network(), shortlist_of([EOS], [[9, 11]] * VOCAB)
    asked = request((6, 7, EOS), strategy="greedy", min_length=6, max_length=8)
    sentence = Sentence.admit(asked, network.config, shortlist)
    runner = native_runner(network)
    runner.admit([sentence])
    runner.advance(Interrupt(), 4)
    prefix = runner.stable_prefix(sentence)
    assert len(prefix) == 4
    assert {*prefix} <= {9, 11}


def test_an_engine_gives_each_sentence_the_candidates_of_its_source() -> None:
    engine = DecodingEngine(native_runner(NETWORK), NETWORK.config, shortlist=SHORTLIST)
    for result, hypotheses in zip(engine.decode(REQUESTS), reference_results(), strict=True):
        assert_same(result, hypotheses)
