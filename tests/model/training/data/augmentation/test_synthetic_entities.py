import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.text.normalisation import clean
from model.training.data.augmentation.alterations import SentenceContext, with_synthetic_entity
from model.training.data.augmentation.synthetic_entities import ANYTHING, FIGURES, THINGS, MakeEntity, name
from model.training.data.corpus import SentencePair

SEEDS = st.integers(0, 2**32)
FEW = settings(max_examples=30)
NEIGHBOURS = [SentencePair("The winter is cold.", "Der Winter ist kalt.")]


def carried(pair: SentencePair, languages: tuple[str, str], seed: int) -> SentencePair | None:
    """None where it is nothing but a thing, the same on both sides."""
    made = with_synthetic_entity(pair, SentenceContext(*languages, NEIGHBOURS), Random(seed))
    return None if made.source == made.target else made


@pytest.mark.parametrize("invention", dict.fromkeys((*ANYTHING, *FIGURES, *THINGS)))
@FEW
@given(seed=SEEDS)
def test_a_thing_is_one_line_that_cleaning_leaves_as_it_is(invention: MakeEntity, seed: int) -> None:
    thing = invention(Random(seed))
    assert thing == clean(thing).strip()
    assert thing == invention(Random(seed))
    assert 1 <= len(thing) <= 100


def test_names_are_of_many_kinds() -> None:
    names = [name(Random(seed)) for seed in range(500)]
    assert len(set(names)) > 400
    assert all(each[0].isupper() for each in names)
    assert any("-" in each for each in names)
    assert any(" " in each for each in names)
    assert any(not each.isascii() for each in names)


@pytest.mark.parametrize(
    ("pair", "languages"),
    [
        (SentencePair("I saw {} at the gate.", "J'ai vu {} à la porte."), ("en", "fr")),
        (SentencePair("我百分之百同意{}。", "I agree with {}."), ("zh", "en")),
        (SentencePair("{}'s dog barks.", "Le chien de {} aboie."), ("en", "fr")),
    ],
)
@pytest.mark.parametrize("shared", ["Boston", "Ångström", "37", "10:30"])
@FEW
@given(seed=SEEDS)
def test_what_both_sides_share_becomes_the_same_other_thing(
    pair: SentencePair, languages: tuple[str, str], shared: str, seed: int
) -> None:
    made = carried(SentencePair(*(side.format(shared) for side in pair)), languages, seed)
    if made is None:
        return
    patterns = [re.escape(side).replace(r"\{\}", "(.+)") for side in pair]
    found = [re.fullmatch(pattern, side) for pattern, side in zip(patterns, made, strict=True)]
    assert all(found)
    assert len({match[1] for match in found if match}) == 1


@FEW
@given(seed=SEEDS)
def test_a_name_in_another_script_is_replaced_by_one_to_carry_over(seed: int) -> None:
    made = carried(SentencePair("Tom is here.", "汤姆在这里。"), ("en", "zh"), seed)
    if made is not None:
        thing = made.source.removesuffix(" is here.")
        assert made == (f"{thing} is here.", f"{thing}在这里。")


@pytest.mark.parametrize(
    ("pair", "languages"),
    [
        (SentencePair("Why are you late?", "Pourquoi es-tu en retard ?"), ("en", "fr")),
        (SentencePair("Winter is coming.", "Der Winter kommt."), ("en", "de")),
        (SentencePair("1 dog.", "1 chien."), ("en", "fr")),
        (SentencePair("Tom met Tom.", "Tom a vu Tom."), ("en", "fr")),
        (SentencePair("Prices rose by 2.5% again.", "Los precios subieron un 2.5% otra vez."), ("en", "es")),
        (SentencePair("你为什么迟到？", "Why are you late?"), ("zh", "en")),
    ],
)
@FEW
@given(seed=SEEDS)
def test_beside_a_sentence_the_thing_stands_in_the_same_place(
    pair: SentencePair, languages: tuple[str, str], seed: int
) -> None:
    """Where nothing is shared, or only a common word, an article or what stands twice."""
    made = carried(pair, languages, seed)
    if made is None:
        return
    bodies = [re.sub(r"\s*[.?？]$", "", side) for side in pair]
    assert all(body in side for body, side in zip(bodies, made, strict=True))
    things = {
        re.sub(r"^[\s:：(（.?？]+|[\s:：)）.?？]+$", "", side.replace(body, "")).strip()
        for body, side in zip(bodies, made, strict=True)
    }
    assert len(things) == 1
