import dataclasses
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.decode_request import DecodeRequest
from model.decoding.pytorch.encoding import EncoderBatch, SideEncoder, pad_to_bucket
from model.decoding.pytorch.static_runner import StaticRunner, doubling
from model.decoding.pytorch.torch_runner import TorchRunner
from model.decoding.runner import Interrupt, Result
from model.decoding.sentence import Sentence
from model.errors import DecodingError
from model.network.transformer import Transformer
from tests.model.decoding.arrivals import finish, run_through
from tests.model.decoding.comparison import assert_same
from tests.model.decoding.networks import EOS, lively_network, request, sentences
from tests.model.decoding.reference import ReferenceDecoder
from tests.model.decoding.test_equivalence_reference import option_sets
from tests.model.tiny_networks import T5

NETWORK = lively_network(7)


def static_runner(network: Transformer = NETWORK, **sizes: object) -> StaticRunner:
    return StaticRunner(network, "cpu", **{"max_rows": 12, "widths": (1, 2, 4), "capacity": 16, **sizes})  # type: ignore[arg-type]


def both(
    arrivals: dict[int, list[DecodeRequest]],
    cancelled: dict[int, list[int]],
    network: Transformer = NETWORK,
    **sizes: object,
) -> tuple[Sequence[Result | None], Sequence[Result | None]]:
    """Results of the static runner, which finishes one step later, and of the exact one."""
    static, agreed = run_through(static_runner(network, **sizes), network.config, arrivals, cancelled)
    exact, expected = run_through(TorchRunner(network, max_rows=64), network.config, arrivals, cancelled)
    for late, exact_steps in zip(agreed, expected, strict=True):
        assert late[: len(exact_steps)] == exact_steps
        assert len(late) - len(exact_steps) in (0, 1)
    dropped = {i for numbers in cancelled.values() for i in numbers if i < len(static) and static[i] is None}
    return static, [None if i in dropped else result for i, result in enumerate(exact)]


@pytest.mark.parametrize("network", [NETWORK, lively_network(7, decoder_memory="ssru")])
@settings(max_examples=12)
@given(
    st.lists(st.tuples(option_sets, st.integers(0, 8), st.integers(1, 9)), min_size=2, max_size=8),
    st.lists(st.integers(0, 5), max_size=2),
    st.integers(1, 8),
    st.sampled_from([4, 9, 16]),
)
def test_any_options_give_the_tokens_of_the_exact_runner(
    network: Transformer,
    asked: list[tuple[dict[str, object], int, int]],
    cancelled: list[int],
    cancelled_at: int,
    capacity: int,
) -> None:
    arrivals: dict[int, list[DecodeRequest]] = {}
    for i, (options, when, length) in enumerate(asked):
        asked_for = request(sentences(length, seed=i)[0], **options)
        asked_for = dataclasses.replace(asked_for, start_ids=(6, 7)[: i % 3])
        arrivals.setdefault(when, []).append(asked_for)
    static, exact = both(arrivals, {cancelled_at: cancelled}, network, capacity=capacity)
    in_order = [Sentence(each, 0, 0) for when in sorted(arrivals) for each in arrivals[when]]
    for sentence, result, expected in zip(in_order, static, exact, strict=True):
        if isinstance(expected, list):
            assert isinstance(result, list)
            assert_same(*(list(map(sentence.without_start, found)) for found in (result, expected)))
        else:
            assert type(result) is type(expected)


@pytest.mark.parametrize(
    "variant",
    [
        *({"positions": kind} for kind in ("learned", "relative", "rotary")),
        {"positions": "relative_vectors", "relative_max_distance": 3},
        {"decoder_memory": "ssru"},
        {name: value for name, value in T5.items() if name != "tie"},
    ],
    ids=lambda variant: "-".join(map(str, variant.values())),
)
def test_every_variant_with_its_alignment(variant: dict[str, object]) -> None:
    network = lively_network(**{"norm_position": "pre", "final_norm": True, **variant})
    options: list[dict[str, object]] = [{"strategy": "greedy"}, {"beam_size": 4, "coverage_penalty": 0.2}]
    arrivals = {
        step: [request(source, min_length=4, max_length=12, return_alignment=True, **options[step % 2])]
        for step, source in enumerate(sentences(5, 2, 9, 4))
    }
    static, _ = run_through(static_runner(network), network.config, arrivals)
    exact, _ = run_through(TorchRunner(network, max_rows=64), network.config, arrivals)
    for result, expected in zip(static, exact, strict=True):
        assert isinstance(expected, list)
        assert_same(result, expected)
        assert result[0].alignment is not None
        for row, expected_row in zip(result[0].alignment, expected[0].alignment or (), strict=True):
            assert row == pytest.approx(expected_row, abs=1e-5)


def test_more_than_the_fixed_grids_hold_run_beside_them() -> None:
    asked = [request(s, strategy="greedy") for s in sentences(*[5] * 9)]
    asked += [request(s, beam_size=3) for s in sentences(4, 6)]
    static, exact = both({0: asked}, {}, max_rows=4, widths=(1,))
    for result, expected in zip(static, exact, strict=True):
        assert result is not None
        assert isinstance(expected, list)
        assert_same(result, expected)


def test_batches_share_one_pool_and_give_all_of_it_back() -> None:
    asked = [request(s, strategy="greedy", max_length=9) for s in sentences(4, 5, 6)]
    sources = zip(sentences(4, 6), (2, 3), strict=True)
    asked += [request(source, beam_size=size, max_length=4) for source, size in sources]
    runner = static_runner(max_kv_slots=112, widths=(1, 2, 4))
    results, _ = run_through(runner, NETWORK.config, {0: asked[:2], 3: asked[2:]}, {2: [1]})
    assert results[1] is None
    for one, result in zip(asked[:1] + asked[2:], results[:1] + results[2:], strict=True):
        assert_same(result, ReferenceDecoder(NETWORK).decode(one))
    assert runner._exact.allocator.num_free == 112


def test_a_dropped_sentence_writes_nothing_where_another_one_has_its_place() -> None:
    """The first slot is computed as long as the second sentence runs; the third has its KV slots."""
    asked = [request(s, strategy="greedy", min_length=12, max_length=16) for s in sentences(6, 5)]
    asked.append(request(sentences(4)[0], beam_size=2, min_length=8, max_length=8))
    runner = static_runner()
    results, _ = run_through(runner, NETWORK.config, {0: asked[:2], 4: asked[2:]}, {3: [0]})
    assert results[0] is None
    for one, result in zip(asked[1:], results[1:], strict=True):
        assert_same(result, ReferenceDecoder(NETWORK).decode(one))


def test_a_slot_is_clean_after_numbers_that_broke() -> None:
    network = lively_network()
    healthy = network.source_embedding.tokens.weight[9].clone()
    asked = request((5, 6, EOS), beam_size=4, min_length=5)
    for others in ({"beam_size": 4}, {"strategy": "greedy"}):
        with torch.no_grad():
            network.source_embedding.tokens.weight[9] = torch.nan
        runner = static_runner(network, max_rows=4)
        broken = request((5, 9, 9, 9, 9, 9, EOS), **others)
        own = request((5, 6, EOS), min_length=5, **others)
        results, _ = run_through(runner, network.config, {0: [broken], 4: [own], 5: [asked]})
        assert isinstance(results[0], DecodingError)
        with torch.no_grad():
            network.source_embedding.tokens.weight[9] = healthy
        for request_, result in ((own, results[1]), (asked, results[2])):
            assert_same(result, ReferenceDecoder(network).decode(request_))


class SlowEncoding(EncoderBatch):
    """Is done after so many questions, as if a GPU were at it."""

    questions_left = 3

    def is_ready(self) -> bool:
        self.questions_left -= 1
        return self.questions_left < 0


def test_those_that_run_do_not_wait_for_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    encode = SideEncoder.encode

    def slowly(encoder: SideEncoder, batch: Sequence[Sentence]) -> EncoderBatch:
        return SlowEncoding(**vars(encode(encoder, batch)))

    monkeypatch.setattr(SideEncoder, "encode", slowly)
    runner = static_runner()
    asked = [request(s, strategy="greedy", min_length=9) for s in sentences(5, 6, 4)]
    first, second, third = (Sentence.admit(one, NETWORK.config) for one in asked)
    runner.admit([first])
    assert runner.advance(Interrupt(), 1).started == [first]  # nothing else to do: it waits
    runner.admit([second])
    runner.admit([third])
    assert runner.stable_prefix(second) == ()
    started = [runner.advance(Interrupt(), 1).started for _ in range(7)]
    assert started == [[], [], [], [second], [], [], [third]]
    results = finish(runner)
    for one, sentence in zip(asked, (first, second, third), strict=True):
        assert_same(results[sentence], ReferenceDecoder(NETWORK).decode(one))


def test_what_is_dropped_while_it_is_encoded_never_runs() -> None:
    runner, asked = static_runner(), [request(s, beam_size=4) for s in sentences(4, 5)]
    results, _ = run_through(runner, NETWORK.config, {0: asked}, {0: [0]})
    assert results[0] is None
    assert results[1] is not None
    assert_same(results[1], ReferenceDecoder(NETWORK).decode(asked[1]))
    runner.close()


@pytest.mark.parametrize(
    ("first", "last", "sizes"),
    [(16, 100, (16, 32, 64, 100)), (16, 64, (16, 32, 64)), (8, 8, (8,)), (8, 5, (5,)), (1, 3, (1, 2, 3))],
)
def test_sizes_double_up_to_the_last(first: int, last: int, sizes: tuple[int, ...]) -> None:
    assert doubling(first, last) == sizes


def test_encoder_batches_have_few_shapes() -> None:
    cpu = torch.device("cpu")
    padded = pad_to_bucket([(4, 5, 6), (7,), (8,)], 0, 100, cpu)
    assert padded.shape == (4, 32)
    assert padded[:, :4].tolist() == [[4, 5, 6, 0], [7, 0, 0, 0], [8, 0, 0, 0], [0, 0, 0, 0]]
    assert pad_to_bucket([(4,) * 33], 0, 100, cpu).shape == (1, 64)
    assert pad_to_bucket([(4,) * 99], 0, 100, cpu).shape == (1, 100)
