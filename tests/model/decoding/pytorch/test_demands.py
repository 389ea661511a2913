import dataclasses

import pytest

from model.decoding.pytorch.slot_options import ALL_RANKS, Demands
from model.decoding.sentence import Sentence
from tests.model.decoding.networks import EOS, request
from tests.model.decoding.slots import CONFIG, admitted
from tests.model.shortlists import small_shortlist


@pytest.mark.parametrize(
    ("options", "demanded"),
    [
        ({"strategy": "greedy"}, {"lanes"}),
        ({"beam_size": 4}, {"beams"}),
        ({"strategy": "sample"}, {"lanes", "samples"}),
        ({"strategy": "sample", "top_k": 3}, {"lanes", "samples", "ranks"}),
        ({"strategy": "greedy", "prefix": (5,)}, {"lanes", "prefixes"}),
        ({"strategy": "greedy", "suppress_ids": [5]}, {"lanes", "suppressed"}),
        ({"strategy": "greedy", "min_length": 3}, {"lanes", "lengths"}),
        ({"strategy": "greedy", "min_length": 1}, {"lanes"}),
        ({"strategy": "greedy", "no_repeat_ngram_size": 2}, {"lanes", "ngrams"}),
        ({"strategy": "greedy", "repetition_penalty": 1.1}, {"lanes", "repetition"}),
        ({"strategy": "greedy", "coverage_penalty": 0.1}, {"lanes"}),  # only beams are scored by it
        ({"coverage_penalty": 0.1}, {"beams", "coverage"}),
        ({"return_alignment": True}, {"beams", "alignment"}),
    ],
)
def test_what_is_asked_for_is_demanded_and_nothing_else(
    options: dict[str, object], demanded: set[str]
) -> None:
    demands = Demands.of(admitted(**options))  # type: ignore[arg-type]
    assert {name for name, value in dataclasses.asdict(demands).items() if value} == demanded


def test_candidates_are_demanded_where_a_sentence_has_some() -> None:
    sentence = Sentence.admit(request((5, EOS), strategy="greedy"), CONFIG, small_shortlist())
    assert Demands.of(sentence) == Demands(lanes=True, shortlisted=True)
    assert Demands.of(sentence).coarse().shortlisted
    assert not Demands.of(admitted()).coarse().shortlisted


def test_one_sentence_is_enough() -> None:
    several = admitted(), admitted(repetition_penalty=2.0), admitted(coverage_penalty=1.0)
    demands = Demands.union(map(Demands.of, several))
    assert demands.history
    assert demands.attention
    assert Demands.union([]) == Demands()


@pytest.mark.parametrize(
    ("limits", "ranks"),
    [([], 0), ([{}], 0), ([{"top_k": 1}], 8), ([{"top_k": 9}], 16), ([{"top_k": 5}, {"top_k": 64}], 64)],
)
def test_as_many_ranks_as_the_widest_cut_needs(limits: list[dict[str, object]], ranks: int) -> None:
    kinds = [Demands.of(admitted(strategy="sample", **limit)) for limit in limits]
    assert Demands.union(kinds).ranks == ranks


def test_a_share_of_probability_may_need_all_ranks_unless_the_tokens_are_few() -> None:
    assert Demands.of(admitted(strategy="sample", top_p=0.9)).ranks == ALL_RANKS
    assert Demands.of(admitted(strategy="sample", top_p=0.9, top_k=3)).ranks == 8


@pytest.mark.parametrize(
    "options", [{}, {"prefix": (5,)}, {"suppress_ids": [5]}, {"no_repeat_ngram_size": 2}]
)
def test_coarse_demands_are_the_same_for_all_that_is_special_and_never_less(
    options: dict[str, object],
) -> None:
    demands = Demands.of(admitted(**options))  # type: ignore[arg-type]
    coarse, special = demands.coarse(), Demands.of(admitted(repetition_penalty=2.0)).coarse()
    assert (coarse == special) is bool(options)
    assert Demands.union([demands, coarse]) == coarse


@pytest.mark.parametrize(("top_k", "ranks"), [(0, 0), (3, 64), (64, 64), (65, ALL_RANKS)])
def test_few_ranks_are_64_and_many_are_all(top_k: int, ranks: int) -> None:
    assert Demands.of(admitted(strategy="sample", top_k=top_k)).coarse().ranks == ranks
