"""What every runner promises: when sentences may join and leave, when a run ends, what a prefix is."""

import dataclasses
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.decode_request import DecodeRequest
from model.decoding.native_runner import NativeRunner
from model.decoding.pytorch.static_runner import StaticRunner
from model.decoding.pytorch.torch_runner import TorchRunner
from model.decoding.runner import Interrupt, Progress, Runner
from model.decoding.sentence import Sentence
from model.errors import DecodingError
from model.network.transformer import Transformer
from tests.model.decoding.arrivals import run_through
from tests.model.decoding.comparison import assert_same
from tests.model.decoding.networks import EOS, VOCAB, lively_network, request, sentences
from tests.model.decoding.reference import ReferenceDecoder
from tests.model.decoding.test_equivalence_reference import WORD_PARTS, option_sets, phrases
from tests.model.native_library import native_network, needs_native

NETWORK, RECURRENT = lively_network(7), lively_network(7, decoder_memory="ssru")
REFERENCE = ReferenceDecoder(NETWORK)
UNTIL_ONE_FINISHES = 1000
NewRunner = Callable[..., Runner]


def torch_runner(max_kv_slots: int, network: Transformer = NETWORK) -> Runner:
    return TorchRunner(network, max_rows=64, max_kv_slots=max_kv_slots)


def static_runner(max_kv_slots: int) -> Runner:
    return StaticRunner(NETWORK, "cpu", max_rows=64, max_kv_slots=max_kv_slots, widths=(1, 2), capacity=256)


def native_runner(max_kv_slots: int, network: Transformer = NETWORK) -> Runner:
    return NativeRunner(native_network(network), max_rows=64, max_kv_slots=max_kv_slots)


NATIVE = pytest.param(native_runner, marks=needs_native)
RUNNERS = pytest.mark.parametrize("new_runner", [torch_runner, static_runner, NATIVE])


def admitted(*requests: DecodeRequest) -> list[Sentence]:
    return [Sentence.admit(asked, NETWORK.config) for asked in requests]


@st.composite
def requests(draw: st.DrawFn) -> DecodeRequest:
    """A request with any options, and sometimes a given prefix and required phrases."""
    (source,) = sentences(draw(st.integers(1, 9)), seed=draw(st.integers(0, 5)))
    prefix, required = draw(st.lists(st.integers(4, VOCAB - 1), max_size=2)), draw(phrases)
    asked = request(source, prefix=prefix, **draw(option_sets))
    return dataclasses.replace(asked, phrases=required, word_parts=WORD_PARTS if required else b"")


# test_static_runner has a test of its own.
@pytest.mark.parametrize("network", [NETWORK, RECURRENT], ids=["attention", "recurrent"])
@pytest.mark.parametrize("new_runner", [torch_runner, NATIVE])
@settings(max_examples=20)
@given(
    asked=st.lists(st.tuples(requests(), st.integers(0, 8)), min_size=2, max_size=6),
    cancelled=st.lists(st.integers(0, 5), max_size=2),
    cancelled_at=st.integers(1, 8),
)
def test_a_sentence_equals_the_slow_reference_whenever_it_joins_and_whatever_else_runs(
    network: Transformer,
    new_runner: NewRunner,
    asked: list[tuple[DecodeRequest, int]],
    cancelled: list[int],
    cancelled_at: int,
) -> None:
    in_order = [one for one, _ in sorted(asked, key=lambda pair: pair[1])]
    arrivals = {when: [one for one, each in asked if each == when] for _, when in asked}
    runner = new_runner(1024, network)
    results, prefixes = run_through(runner, network.config, arrivals, {cancelled_at: cancelled})
    for asked_for, result, seen in zip(in_order, results, prefixes, strict=True):
        if result is None:
            continue
        expected = ReferenceDecoder(network).decode(asked_for)
        if expected:
            assert_same(result, expected)
            assert_stable(expected[0].token_ids, seen)
        else:
            assert isinstance(result, DecodingError)


def assert_stable(tokens: tuple[int, ...], prefixes: Sequence[tuple[int, ...]]) -> None:
    lengths = [len(prefix) for prefix in prefixes]
    assert lengths == sorted(lengths)
    assert all(prefix == tokens[: len(prefix)] for prefix in prefixes)


@RUNNERS
@pytest.mark.parametrize("options", [{"strategy": "greedy"}, {"beam_size": 2}])
def test_a_given_prefix_is_stable_as_soon_as_it_is_produced(
    new_runner: NewRunner, options: dict[str, object]
) -> None:
    runner = new_runner(500)
    (sentence,) = admitted(request((5, 6, 7, EOS), prefix=(5, 6), min_length=6, **options))
    runner.admit([sentence])
    prefixes = []
    for _ in range(4):
        runner.advance(Interrupt(), 1)
        prefixes.append(runner.stable_prefix(sentence))
    assert prefixes[:2] == [(5,), (5, 6)]
    assert options != {"strategy": "greedy"} or [len(prefix) for prefix in prefixes] == [1, 2, 3, 4]


@RUNNERS
def test_what_a_sentence_occupies_is_free_after_it_finishes_or_is_dropped(new_runner: NewRunner) -> None:
    asked = [request(s, beam_size=2, max_length=6) for s in sentences(5, 5)]
    runner = new_runner(2 * (5 + 2 * 6))
    for _ in range(5):
        arrived = admitted(*asked)
        runner.admit(arrived)
        runner.advance(Interrupt(), 1)
        runner.drop(arrived[:1])
        progress = runner.advance(Interrupt(), UNTIL_ONE_FINISHES)
        assert [s for s, _ in progress.finished] == arrived[1:]
        assert_same(progress.finished[0][1], REFERENCE.decode(asked[1]))


@RUNNERS
def test_a_run_ends_with_the_step_that_finishes_a_sentence(new_runner: NewRunner) -> None:
    runner = new_runner(500)
    lengths = ({"min_length": n, "max_length": n} for n in (3, 7))
    short, long = admitted(*(request((5, 6, EOS), strategy="greedy", **each) for each in lengths))
    runner.admit([short, long])
    first, second = (runner.advance(Interrupt(), UNTIL_ONE_FINISHES) for _ in range(2))
    assert ([s for s, _ in first.finished], [s for s, _ in second.finished]) == ([short], [long])
    steps_later = 1 if new_runner is static_runner else 0
    assert [(step.rows, step.sentences) for step in first.steps] == [(2, 2)] * (3 + steps_later)
    assert [(step.rows, step.sentences) for step in second.steps] == [(1, 1)] * 4
    assert (first.started, second.started) == ([short, long], [])
    assert all(step.seconds > 0 for step in (*first.steps, *second.steps))
    assert runner.advance(Interrupt(), UNTIL_ONE_FINISHES) == Progress()


@RUNNERS
def test_a_run_ends_after_so_many_steps_or_at_an_interrupt(new_runner: NewRunner) -> None:
    runner, interrupt = new_runner(500), Interrupt()
    assert runner.advance(interrupt, 5).steps == []
    arrived = admitted(request((5, 6, EOS), strategy="greedy", min_length=15))
    runner.admit(arrived)
    first = runner.advance(interrupt, 4)
    assert (len(first.steps), first.started, first.finished) == (4, arrived, [])
    interrupt.set()
    assert len(runner.advance(interrupt, 4).steps) == 1
    interrupt.clear()
    assert len(runner.advance(interrupt, 3).steps) == 3
