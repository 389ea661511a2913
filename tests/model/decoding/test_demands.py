import dataclasses

import pytest

from model.decoding.demands import ALL_RANKS, Demands
from tests.model.decoding.slots import admitted


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
    demands = Demands.of([admitted(**options)])  # type: ignore[arg-type]
    assert {name for name, value in dataclasses.asdict(demands).items() if value} == demanded


def test_one_sentence_is_enough() -> None:
    demands = Demands.of([admitted(), admitted(repetition_penalty=2.0), admitted(coverage_penalty=1.0)])
    assert demands.history
    assert demands.attention
    assert not Demands.of([]).history


@pytest.mark.parametrize(
    ("limits", "ranks"),
    [([], 0), ([{}], 0), ([{"top_k": 1}], 8), ([{"top_k": 9}], 16), ([{"top_k": 5}, {"top_k": 64}], 64)],
)
def test_as_many_ranks_as_the_widest_cut_needs(limits: list[dict[str, object]], ranks: int) -> None:
    assert Demands.of(admitted(strategy="sample", **limit) for limit in limits).ranks == ranks


def test_a_share_of_probability_may_need_all_ranks_unless_the_tokens_are_few() -> None:
    assert Demands.of([admitted(strategy="sample", top_p=0.9)]).ranks == ALL_RANKS
    assert Demands.of([admitted(strategy="sample", top_p=0.9, top_k=3)]).ranks == 8
