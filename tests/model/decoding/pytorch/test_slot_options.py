import dataclasses
import math

import pytest
import torch

from model.decoding.pytorch.slot_options import ALL_RANKS, ActiveFeatures, SlotOptions
from model.decoding.sentence import Sentence
from tests.model.decoding.networks import EOS, request
from tests.model.decoding.slots import CONFIG, CPU, admitted, option_rows
from tests.model.shortlists import small_shortlist


def test_every_slot_has_its_own_options() -> None:
    rows = option_rows(
        [
            admitted(strategy="sample", seed=2**62 + 1, top_k=3, top_p=0.5, min_p=0.25, temperature=2.0),
            admitted(beam_size=4, patience=2.0, num_hypotheses=3, length_penalty=0.5, min_length=2),
            admitted(stop="first", length_penalty_form="gnmt", no_repeat_ngram_size=2, max_length=7),
        ]
    )
    assert rows.is_sample_N.tolist() == [1, 0, 0]
    assert rows.is_beam_N.tolist() == [0, 1, 1]
    assert rows.seed_N[0].item() == 2**62 + 1
    assert (rows.top_k_N[0], rows.top_p_N[0], rows.min_p_N[0], rows.temperature_N[0]) == (3, 0.5, 0.25, 2.0)
    assert rows.enough_N.tolist()[1:] == [8, math.inf]
    assert rows.num_hypotheses_N.tolist() == [1, 3, 1]
    assert rows.shortest_N.tolist() == [0, 2, 0]
    assert rows.longest_N[2] == 7
    assert rows.stop_N.tolist() == [0, 0, 1]
    assert rows.ngram_size_N.tolist() == [0, 0, 2]
    assert (rows.length_exponent_N[1], rows.length_scale_N[1], rows.length_scale_N[2]) == (0.5, 1, 6)


def test_the_coldest_temperature_and_the_highest_rank_are_in_their_columns() -> None:
    rows = option_rows([admitted(strategy="sample", temperature=1e-60, top_k=2**63)])
    assert (rows.temperature_N[0].item(), rows.top_k_N[0].item()) == (2.0**-126, 2**31 - 1)


def test_options_of_chosen_slots_and_of_those_that_moved() -> None:
    options = SlotOptions(3, CPU)
    options.assign(
        torch.tensor([2, 0]), *options.values([admitted(top_k=7, strategy="sample"), admitted()], CPU)
    )
    assert options.of(torch.tensor([2])).top_k_N.tolist() == [7]
    options.move(torch.tensor([2]), torch.tensor([0]))
    assert options.first(1).top_k_N.tolist() == [7]


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
