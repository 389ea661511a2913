"""What only the native runner promises; that it equals the reference is in test_equivalence_reference."""

import ctypes
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from model.config import TransformerConfig
from model.decode_request import DecodeRequest
from model.decoding.native_runner import NativeNetwork, NativeRunner, read_numbers
from model.decoding.runner import Interrupt
from model.decoding.sentence import Sentence
from model.errors import ConfigError, DecodingError, NativeError
from model.native.binding import Library
from model.network.transformer import Transformer
from tests.model.decoding.arrivals import finish
from tests.model.decoding.networks import BOS, EOS, PAD, UNK, VOCAB, lively_network, request, sentences
from tests.model.decoding.reference import uniform
from tests.model.decoding.test_equivalence_reference import STRATEGIES, many_requests
from tests.model.native_library import engine_over, native_engine, native_network, needs_native
from tests.model.tiny_networks import T5, tiny_network


def native_runner(network: Transformer, **options: object) -> NativeRunner:
    native = native_network(network)
    return NativeRunner(native, max_rows=256, max_kv_slots=8192, **options)  # type: ignore[arg-type]


def admit(runner: NativeRunner, network: Transformer, *requests: DecodeRequest) -> list[Sentence]:
    joining = [Sentence.admit(asked, network.config) for asked in requests]
    runner.admit(joining)
    return joining


def test_among_one_token_is_none_to_draw(library: Library) -> None:
    """At this temperature all tokens have the same weight."""
    network = tiny_network(tie="none")
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if parameter.shape[0] == network.config.target_vocab_size and "embedding" not in name:
                parameter *= 1e-5
    engine = native_engine(network, library=library)
    drawn = [
        request((4, EOS), strategy="sample", top_k=1, temperature=100.0, seed=seed) for seed in range(10)
    ]
    (likeliest,), *others = engine.decode([request((4, EOS), strategy="greedy"), *drawn])
    assert {result[0].token_ids for result in others} == {likeliest.token_ids}


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize(
    "variant",
    [{}, {"model_dim": 64, "ffn_dim": 128, "decoder_memory": "ssru"}, T5 | {"tie": "none", "model_dim": 64}],
    ids=["ordinary", "recurrent", "T5"],
)
def test_a_result_is_the_same_to_the_last_bit_in_any_company(
    variant: dict[str, object], precision: str, library: Library
) -> None:
    engine = native_engine(lively_network(**variant), library=library, precision=precision)
    requests = many_requests()
    alone = [engine.decode([asked])[0] for asked in requests]
    shuffled = random.Random(4)
    for _ in range(3):
        order = shuffled.choices(range(len(requests)), k=40)
        for place, result in zip(order, engine.decode([requests[i] for i in order]), strict=True):
            assert result == alone[place]


@pytest.mark.parametrize("logit", [torch.nan, torch.inf])
@pytest.mark.parametrize("token", [PAD, 5])
def test_one_broken_logit_is_enough(logit: float, token: int) -> None:
    network = lively_network()
    with torch.no_grad():
        network.output.bias[token] = logit
    for result in native_engine(network).decode([request((5, 6, EOS), **each) for each in STRATEGIES]):
        assert isinstance(result, DecodingError)
        assert "not a number" in str(result)


@needs_native
def test_reserved_and_forbidden_ids_are_never_produced_and_unknown_ones_do_no_harm() -> None:
    network = lively_network(vocab_multiple=64)
    native = native_network(network)
    runner = NativeRunner(native, max_rows=64, max_kv_slots=4096, never_produced=[7, 8])
    produced: set[int] = set()
    for seed, source in enumerate(sentences(*[5] * 20)):
        options = {"strategy": "sample", "seed": seed, "temperature": 50.0, "num_hypotheses": 3}
        admit(runner, network, request(source, **options, suppress_ids=[9, VOCAB, 2**31, 2**32 + 6]))
    for result in finish(runner).values():
        produced.update(token for found in result for token in found.token_ids)
    assert produced == set(range(VOCAB)) - {PAD, BOS, EOS, 7, 8, 9}


@needs_native
@pytest.mark.parametrize("token", [-1, VOCAB])
def test_ids_that_are_none_cannot_be_forbidden(token: int) -> None:
    with pytest.raises(ConfigError, match="never_produced"):
        native_runner(lively_network(), never_produced=[token])


@needs_native
@pytest.mark.parametrize("bound", ["max_rows", "max_kv_slots"])
@pytest.mark.parametrize("number", [0, 2**31])
def test_bounds_below_one_or_beyond_32_bits_are_refused(bound: str, number: int) -> None:
    network = lively_network()
    native = native_network(network)
    bounds = {"max_rows": 1, "max_kv_slots": 100} | {bound: number}
    with pytest.raises(ConfigError, match=bound):
        NativeRunner(native, **bounds)


@needs_native
def test_of_equal_tokens_the_lowest_is_chosen_and_of_equal_beams_the_earlier() -> None:
    """PyTorch's argmax does the same, its topk promises nothing: there, ties may fall either way."""
    network = tiny_network(output_bias=False, target_vocab_size=300)
    with torch.no_grad():
        network.output.weight.zero_()
    options = {"min_length": 3, "max_length": 3, "suppress_ids": [UNK, EOS, 6]}
    greedy, beam = native_engine(network).decode(
        [
            request((5, EOS), strategy="greedy", **options),
            request((5, EOS), beam_size=3, num_hypotheses=3, **options),
        ]
    )
    assert [found.token_ids for found in greedy] == [(4, 4, 4)]
    assert [found.token_ids for found in beam] == [(4, 4, 4), (4, 4, 5), (4, 4, 7)]


@needs_native
def test_a_temperature_that_float32_does_not_have_is_the_coldest() -> None:
    asked = [
        request((5, 6, EOS), strategy="sample", seed=1, max_length=5, temperature=temperature)
        for temperature in (1e-60, 1e-30)
    ]
    coldest, cold = native_engine(lively_network()).decode(asked)
    assert coldest == cold
    assert isinstance(coldest, list)


@needs_native
@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
def test_random_numbers_are_those_of_every_runner(seed: int) -> None:
    """Where all tokens are equally likely, the one that is drawn tells the number."""
    vocab_size = 4096 + 4
    network = tiny_network(target_vocab_size=vocab_size, output_bias=False)
    with torch.no_grad():
        network.output.weight.zero_()
    options = {"strategy": "sample", "num_hypotheses": 3, "max_length": 8, "seed": seed}
    asked = request((5, 6, EOS), **options, suppress_ids=[UNK, EOS])
    (result,) = native_engine(network).decode([asked])
    drawn = {found.token_ids for found in result}
    assert drawn == {
        tuple(4 + int(4096 * uniform(seed, row, position)) for position in range(8)) for row in range(3)
    }


@needs_native
def test_hypotheses_that_are_still_the_same_are_computed_once() -> None:
    network = lively_network()
    runner = native_runner(network)
    for options in ({"beam_size": 3}, {"strategy": "sample", "num_hypotheses": 3, "seed": 5}):
        admit(runner, network, request((5, 6, EOS), prefix=[5, 6], min_length=6, **options))
        rows = [runner.advance(Interrupt(), 1).steps[0].rows for _ in range(5)]
        assert rows == [1, 1, 1, 3, 3]
        finish(runner)


@pytest.fixture(scope="module")
def network() -> NativeNetwork:
    torch_network = lively_network(2)
    return native_network(torch_network)


def admitted(config: TransformerConfig, *lengths: int, **options: object) -> list[Sentence]:
    return [Sentence.admit(request(source, **options), config) for source in sentences(*lengths)]


def test_a_sentence_never_needs_more_slots_than_it_reserves(network: NativeNetwork) -> None:
    for options in ({"beam_size": 5}, {"strategy": "sample", "seed": 2, "num_hypotheses": 4}):
        (sentence,) = admitted(network.config, 6, min_length=9, max_length=10, **options)
        runner = NativeRunner(network, max_rows=sentence.rows, max_kv_slots=sentence.kv_slots)
        runner.admit([sentence])
        least = sentence.kv_slots
        while progress := runner.advance(Interrupt(), 1):
            if progress.finished:
                break
            least = min(least, runner.num_free_kv_slots)
        assert 0 <= least < sentence.rows + 10


def test_sentences_that_do_not_fit_are_refused_together(network: NativeNetwork) -> None:
    first, second = admitted(network.config, 5, 5, beam_size=4)
    few_rows = NativeRunner(network, max_rows=7, max_kv_slots=5000)
    few_kv_slots = NativeRunner(network, max_rows=8, max_kv_slots=first.kv_slots + second.kv_slots - 1)
    for runner, words in ((few_rows, "rows"), (few_kv_slots, "KV slots")):
        with pytest.raises(NativeError, match=words):
            runner.admit([first, second])
        assert runner.num_free_kv_slots == runner.max_kv_slots
        assert finish(runner) == {}
        runner.admit([first])
        with pytest.raises(NativeError, match=words):
            runner.admit([second])
        assert list(finish(runner)) == [first]


def test_a_closed_runner_refuses_all_calls(network: NativeNetwork) -> None:
    runner = NativeRunner(network, max_rows=4, max_kv_slots=100)
    (sentence,) = admitted(network.config, 4)
    runner.admit([sentence])
    runner.close()
    runner.close()
    calls: list[Callable[[], object]] = [
        lambda: runner.admit(admitted(network.config, 4)),
        lambda: runner.advance(Interrupt(), 1),
        lambda: runner.stable_prefix(sentence),
        lambda: runner.drop([sentence]),
        lambda: runner.num_free_kv_slots,
    ]
    for call in calls:
        with pytest.raises(NativeError, match="the session is closed"):
            call()


def test_runners_on_several_threads_share_a_network(network: NativeNetwork) -> None:
    requests = [request(source, beam_size=3) for source in sentences(*[4, 9, 6, 2] * 10)]
    expected = engine_over(network).decode(requests)
    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(engine_over(network).decode, requests) for _ in range(6)]
    for run in runs:
        assert run.result() == expected


def test_numbers_are_copied_from_the_librarys_memory() -> None:
    numbers = (ctypes.c_int32 * 3)(7, -1, 9)
    address = ctypes.addressof(numbers)
    assert read_numbers("i", address, 3) == (7, -1, 9)
    assert read_numbers("i", address, 0) == ()
    # Where the library has no numbers it gives no address; `string_at` would read the memory of None.
    assert read_numbers("i", None, 3) == ()
