import pytest

from model.decoding.pytorch.slot_options import ALL_RANKS, ActiveFeatures
from tests.model.decoding.slots import admitted


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
