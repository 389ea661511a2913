import dataclasses
import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
import torch

from model.decode_request import Hypothesis
from model.decoding.factory import torch_engine
from model.decoding.pytorch.search.beam import is_settled
from tests.model.decoding.comparison import assert_same
from tests.model.decoding.networks import BOS, EOS, UNK, TableNetwork, lively_network, request, sentences
from tests.model.decoding.reference import ReferenceDecoder
from tests.model.decoding.slots import admitted, option_rows

Table = Mapping[int, Mapping[int, float]]
WORDS = (4, 5, 6)


def random_table(seed: int) -> Table:
    """Each of three words and the start may be followed by any word or the end."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(4, 4, generator=generator).mul(1.5).softmax(1).tolist()
    return {
        last: dict(zip((*WORDS, EOS), row, strict=True))
        for last, row in zip((BOS, *WORDS), rows, strict=True)
    }


def decode(table: Table, **options: object) -> list[Hypothesis]:
    return torch_engine(TableNetwork(table)).decode([request((4, EOS), **options)])[0]


@pytest.mark.parametrize("options", [{"length_penalty": 0.0}, {}, {"length_penalty": 2.0}])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_wide_beam_is_exhaustive_search(seed: int, options: dict[str, object]) -> None:
    network = lively_network(seed, target_vocab_size=6)  # two words, the unknown one, and the end
    limits = {"max_length": 5, "suppress_ids": [UNK]}
    asked = request(sentences(5)[0], beam_size=64, num_hypotheses=31, stop="all", **limits, **options)
    expected = ReferenceDecoder(network).all_finished(asked)
    assert len(expected) == 1 + 2 + 4 + 8 + 16
    assert_same(torch_engine(network).decode([asked])[0], expected)


def test_a_wide_beam_with_a_required_phrase_is_exhaustive_search_of_what_contains_it() -> None:
    network = lively_network(target_vocab_size=6)
    limits = {"max_length": 5, "suppress_ids": [UNK], "beam_size": 64, "num_hypotheses": 8, "stop": "all"}
    asked = dataclasses.replace(request(sentences(5)[0], **limits), phrases=(((4, 5), (5, 5, 5)),))
    expected = ReferenceDecoder(network).all_finished(asked)
    assert {found.token_ids for found in expected} >= {(4, 5), (5, 4, 5), (5, 5, 5)}
    assert_same(torch_engine(network).decode([asked])[0], expected[:8])


def test_with_coverage_a_beam_of_one_is_greedy_too() -> None:
    engine = torch_engine(lively_network(4))
    sources = sentences(5, 7, 9, 12)
    beams = engine.decode([request(s, beam_size=1, coverage_penalty=3.0) for s in sources])
    greedy = engine.decode([request(s, strategy="greedy") for s in sources])
    for beam, expected in zip(beams, greedy, strict=True):
        assert beam[0].token_ids == expected[0].token_ids


def test_stop_first_ends_with_the_best_continuation() -> None:
    """EOS leads at the second step; the long continuation would have a better score per token."""
    table = {BOS: {4: 1.0}, 4: {5: 0.45, EOS: 0.55}, 5: {6: 1.0}, 6: {7: 1.0}, 7: {EOS: 1.0}}
    assert decode(table, beam_size=3, stop="first")[0].token_ids == (4,)
    assert decode(table, beam_size=3, stop="patience")[0].token_ids == (4, 5, 6, 7)


@pytest.mark.parametrize("seed", range(8))
def test_the_early_cut_loses_nothing(seed: int) -> None:
    network, reference = TableNetwork(random_table(seed)), ReferenceDecoder(TableNetwork(random_table(seed)))
    options = {"stop": "all", "num_hypotheses": 2}
    asked = [
        request((4, EOS), length_penalty=alpha, length_penalty_form=form, **options)
        for form in ("power", "gnmt")
        for alpha in (0.0, 0.75, 1.0, 3.0)
    ]
    for one, result in zip(asked, torch_engine(network).decode(asked), strict=True):
        assert_same(result, reference.decode(one))


def test_the_length_penalty_of_dive_into_deep_learning() -> None:
    """Section 10.8: log P · L^−0.75."""
    for found in decode(random_table(4), length_penalty=0.75, num_hypotheses=4, stop="all"):
        length = len(found.token_log_probabilities)
        assert found.score == pytest.approx(found.log_probability * length**-0.75, rel=1e-5)


def test_stop_first_without_penalty_is_the_batched_beam_of_the_tutorial() -> None:
    """Raw sums, no pool; the search ends when the top of the beam does."""
    alike = 0
    options = {"stop": "first", "length_penalty": 0.0, "max_length": 16}
    asked = [request((4, EOS), beam_size=size, **options) for size in (2, 3)]
    for seed in range(60):
        table = random_table(seed)
        for one, found in zip(asked, torch_engine(TableNetwork(table)).decode(asked), strict=True):
            expected, total, others_ended = beam_that_stops_at_the_top(table, one.options.beam_size)
            if not others_ended:  # what has ended holds a place in that beam, and none in ours
                alike += 1
                assert (found[0].token_ids, found[0].score) == (expected, pytest.approx(total, abs=1e-4))
    assert alike > 15


def test_stop_all_per_token_is_the_heap_of_the_tutorial() -> None:
    """Finished ones are ranked by score / length, and the search goes on until all have ended."""
    for seed in range(20):
        table = random_table(seed)
        expected, score = heap_beam(table, beam_size=64, max_length=4)
        found = decode(table, beam_size=64, length_penalty=1.0, stop="all", max_length=4)[0]
        assert (found.token_ids, found.score) == (expected, pytest.approx(score, abs=1e-4))


def beam_that_stops_at_the_top(table: Table, beam_size: int) -> tuple[tuple[int, ...], float, bool]:
    """Its translation, the sum of its log-probabilities, and whether others had ended before."""
    beam: list[tuple[float, tuple[int, ...]]] = [(0.0, (BOS,))]
    others_ended = False
    for _ in range(16):
        continued = [
            (total + math.log(p), (*tokens, token))
            for total, tokens in beam
            for token, p in table.get(tokens[-1], {EOS: 1.0}).items()
        ]
        beam = sorted(continued, reverse=True)[:beam_size]
        if beam[0][1][-1] == EOS:
            break
        others_ended |= any(tokens[-1] == EOS for _, tokens in beam)
    total, tokens = beam[0]
    ended = EOS in tokens
    return tuple(t for t in tokens if t not in (BOS, EOS)), total, others_ended or not ended


@dataclass(order=True)
class Node:
    cost: float
    tokens: tuple[int, ...] = field(compare=False)
    total: float = field(compare=False)


def heap_beam(table: Table, beam_size: int, max_length: int) -> tuple[tuple[int, ...], float]:
    """Its best translation that has ended, and its score."""
    heap = [Node(0.0, (BOS,), 0.0)]
    for _ in range(max_length):
        best, heap = [heapq.heappop(heap) for _ in range(min(beam_size, len(heap)))], []
        for node in best:
            if node.tokens[-1] == EOS:
                heapq.heappush(heap, node)
                continue
            for token, probability in table[node.tokens[-1]].items():
                total = node.total + math.log(probability)
                heapq.heappush(heap, Node(-total / len(node.tokens), (*node.tokens, token), total))
    node = min(node for node in heap if node.tokens[-1] == EOS)
    return node.tokens[1:-1], -node.cost


FINISHED_NK = torch.tensor([[-1.0, -2.0, -math.inf, -math.inf]])


def settled(
    *,
    finished: int = 2,
    leading: float = -9.0,
    attainable: float = -1.5,
    top: bool = False,
    **options: object,
) -> bool:
    found = is_settled(
        FINISHED_NK,
        torch.tensor([finished]),
        torch.tensor([leading]),
        torch.tensor([attainable]),
        torch.tensor([top]),
        option_rows([admitted(**options)]),
    )
    return bool(found)


def test_no_rule_goes_on_when_nothing_better_can_come() -> None:
    for stop in ("patience", "first", "all"):
        assert settled(stop=stop, attainable=-1.0, patience=9.0)
        assert not settled(stop=stop, attainable=-0.9, patience=9.0)
        assert settled(stop=stop, attainable=-math.inf)
