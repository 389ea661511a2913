import dataclasses

import pytest

from model.decoding.pytorch.slot_options import ALL_RANKS, ActiveFeatures
from model.decoding.sentence import Sentence
from tests.model.decoding.networks import EOS, request
from tests.model.decoding.slots import CONFIG, admitted
from tests.model.shortlists import small_shortlist


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"strategy": "greedy"}, {"independent"}),
        ({"beam_size": 4}, {"beam_search"}),
        ({"strategy": "sample"}, {"independent", "sampling"}),
        ({"strategy": "sample", "top_k": 3}, {"independent", "sampling", "ranks"}),
        ({"strategy": "greedy", "prefix": (5,)}, {"independent", "prefixes"}),
        ({"strategy": "greedy", "suppress_ids": [5]}, {"independent", "suppressed"}),
        ({"strategy": "greedy", "min_length": 3}, {"independent", "min_lengths"}),
        ({"strategy": "greedy", "min_length": 1}, {"independent"}),
        ({"strategy": "greedy", "no_repeat_ngram_size": 2}, {"independent", "ngrams"}),
        ({"strategy": "greedy", "repetition_penalty": 1.1}, {"independent", "repetition"}),
        ({"strategy": "greedy", "coverage_penalty": 0.1}, {"independent"}),  # only beams are scored by it
        ({"coverage_penalty": 0.1}, {"beam_search", "coverage"}),
        ({"return_alignment": True}, {"beam_search", "alignment"}),
    ],
)
def test_a_sentence_activates_the_features_that_it_uses_and_no_other(
    options: dict[str, object], expected: set[str]
) -> None:
    features = ActiveFeatures.of(admitted(**options))  # type: ignore[arg-type]
    assert {name for name, value in dataclasses.asdict(features).items() if value} == expected


def test_a_shortlist_is_a_feature() -> None:
    sentence = Sentence.admit(request((5, EOS), strategy="greedy"), CONFIG, small_shortlist())
    assert ActiveFeatures.of(sentence) == ActiveFeatures(independent=True, shortlisted=True)
    assert ActiveFeatures.of(sentence).coarse().shortlisted
    assert not ActiveFeatures.of(admitted()).coarse().shortlisted


def test_one_sentence_is_enough() -> None:
    several = admitted(), admitted(repetition_penalty=2.0), admitted(coverage_penalty=1.0)
    features = ActiveFeatures.union(map(ActiveFeatures.of, several))
    assert features.history
    assert features.attention
    assert ActiveFeatures.union([]) == ActiveFeatures()


@pytest.mark.parametrize(
    ("limits", "ranks"),
    [([], 0), ([{}], 0), ([{"top_k": 1}], 8), ([{"top_k": 9}], 16), ([{"top_k": 5}, {"top_k": 64}], 64)],
)
def test_as_many_ranks_as_the_widest_cut_needs(limits: list[dict[str, object]], ranks: int) -> None:
    kinds = [ActiveFeatures.of(admitted(strategy="sample", **limit)) for limit in limits]
    assert ActiveFeatures.union(kinds).ranks == ranks


def test_a_share_of_probability_may_need_all_ranks_unless_the_tokens_are_few() -> None:
    assert ActiveFeatures.of(admitted(strategy="sample", top_p=0.9)).ranks == ALL_RANKS
    assert ActiveFeatures.of(admitted(strategy="sample", top_p=0.9, top_k=3)).ranks == 8


@pytest.mark.parametrize(
    "options", [{}, {"prefix": (5,)}, {"suppress_ids": [5]}, {"no_repeat_ngram_size": 2}]
)
def test_coarse_features_are_the_same_for_all_that_is_special_and_never_less(
    options: dict[str, object],
) -> None:
    features = ActiveFeatures.of(admitted(**options))  # type: ignore[arg-type]
    coarse, special = features.coarse(), ActiveFeatures.of(admitted(repetition_penalty=2.0)).coarse()
    assert (coarse == special) is bool(options)
    assert ActiveFeatures.union([features, coarse]) == coarse


@pytest.mark.parametrize(("top_k", "ranks"), [(0, 0), (3, 64), (64, 64), (65, ALL_RANKS)])
def test_few_ranks_are_64_and_many_are_all(top_k: int, ranks: int) -> None:
    assert ActiveFeatures.of(admitted(strategy="sample", top_k=top_k)).coarse().ranks == ranks
