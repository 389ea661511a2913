from pathlib import Path

import pytest

from model.training.report.translations import KeptTranslations, Moment, Translations
from model.training.validation import TranslatedText


def translations(step: int) -> Translations:
    text = TranslatedText("en", "fr", ("a",), ("b",), (f"translated at {step} · <b>\u2028",))
    return Translations(step, (text,))


def steps(kept: KeptTranslations) -> dict[Moment, int | None]:
    moments: tuple[Moment, ...] = ("first", "best")
    return {moment: found.step if (found := kept.read(moment)) else None for moment in moments}


@pytest.fixture
def kept(tmp_path: Path) -> KeptTranslations:
    made = KeptTranslations(tmp_path / "run" / "translations")
    for step, is_best in ((10, True), (20, True), (30, False)):
        made.keep(translations(step), is_best=is_best)
    return made


def test_nothing_is_kept_at_first(tmp_path: Path) -> None:
    assert steps(KeptTranslations(tmp_path)) == {"first": None, "best": None}


def test_the_first_and_the_best_are_kept(kept: KeptTranslations) -> None:
    assert steps(kept) == {"first": 10, "best": 20}
    assert kept.read("best") == translations(20)


@pytest.mark.parametrize(
    ("step", "left"),
    [(20, (10, 20)), (15, (10, None)), (5, (None, None))],
)
def test_what_happened_later_is_forgotten(
    kept: KeptTranslations, step: int, left: tuple[int | None, ...]
) -> None:
    kept.rewind(step)
    assert tuple(steps(kept).values()) == left
