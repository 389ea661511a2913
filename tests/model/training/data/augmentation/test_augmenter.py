import dataclasses
from collections import Counter

import pytest

from model.training.config.sections import AUGMENTATION_KINDS, AugmentationConfig
from model.training.config.train_config import build
from model.training.data.augmentation.augmenter import ALTERATIONS, Augmenter
from model.training.data.corpus import SentencePair
from tests.model.training.parallel_text import made_up_pairs


def every_rate(rate: float) -> AugmentationConfig:
    return build(AugmentationConfig, dict.fromkeys(AUGMENTATION_KINDS, rate), "augmentation")


PAIRS = [SentencePair(f"remember Déjà vu: {source}", target) for source, target in made_up_pairs(1000)]
EVERYTHING = every_rate(0.5)


def copies(config: AugmentationConfig, pairs: list[SentencePair] = PAIRS) -> list[tuple[str, SentencePair]]:
    return [(copy.kind, copy.pair) for copy in Augmenter(config).copies(pairs, "en", "fr")]


def test_every_kind_has_an_alteration_and_a_rate() -> None:
    others = {"words", "seed"}
    fields = {field.name for field in dataclasses.fields(AugmentationConfig)}
    assert set(ALTERATIONS) == set(AUGMENTATION_KINDS) == set(EVERYTHING.rates) == fields - others


@pytest.mark.parametrize("kind", AUGMENTATION_KINDS)
def test_a_rate_is_the_expected_number_of_copies(kind: str) -> None:
    for rate in (0.25, 2.0):
        made = copies(build(AugmentationConfig, {kind: rate}, "augmentation"))
        assert {name for name, _ in made} == {kind}
        assert len(made) == pytest.approx(rate * len(PAIRS), rel=0.2)


def test_the_same_pairs_have_the_same_copies() -> None:
    assert copies(EVERYTHING) == copies(EVERYTHING)
    assert copies(EVERYTHING) != copies(dataclasses.replace(EVERYTHING, seed=1))


def test_copies_of_a_pair_do_not_depend_on_its_place() -> None:
    """Save for `joined`, which is made of neighbours."""
    alone = dataclasses.replace(EVERYTHING, joined=0.0)
    assert Counter(copies(alone)) == Counter(copies(alone, PAIRS[::-1]))


def test_no_copy_is_its_pair() -> None:
    always = every_rate(1.0)
    for pair in PAIRS[:200]:
        assert pair not in [copy for _, copy in copies(always, [pair])]
