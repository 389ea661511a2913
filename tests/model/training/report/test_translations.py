from pathlib import Path

import pytest

from model.training.report.translations import (
    KeptTranslations,
    Moment,
    Translations,
    remarkable,
    score_by_length,
    sentence_histories,
    write_by_length,
)
from model.training.validation.validator import TranslatedText


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


REFERENCES = ("the cat sleeps", "a dog barks", "birds sing here")
SOURCES = ("un", "deux", "trois")


def translated(*translations: str, sources: tuple[str, ...] = SOURCES) -> TranslatedText:
    return TranslatedText("fr", "en", sources, REFERENCES, translations)


BEFORE = translated("the cat eats", "a dog barks", "nothing")
AFTER = translated("the cat sleeps", "a frog", "birds sing")


def test_each_sentence_is_scored_now_and_before() -> None:
    first, second, _ = sentence_histories(BEFORE, AFTER)
    assert first.before is not None
    assert (first.before.text, first.after.text) == ("the cat eats", "the cat sleeps")
    assert (first.after.bleu, first.after.chrf) == pytest.approx((100, 100))
    assert first.gain == pytest.approx(100 - first.before.chrf)
    assert second.gain < 0


def test_the_worst_and_those_that_changed_most() -> None:
    found = remarkable(sentence_histories(BEFORE, AFTER), 2)
    assert {kind: [each.source for each in histories] for kind, histories in found.items()} == {
        "Worst": ["deux", "trois"],
        "Most improved": ["un", "trois"],
        "Worsened": ["deux"],
    }


def test_sentences_are_recognised_not_counted() -> None:
    earlier = translated("the cat eats", "a dog barks", "nothing", sources=("un", "other", "trois"))
    histories = sentence_histories(earlier, AFTER)
    assert [each.before.text if each.before else None for each in histories] == [
        "the cat eats",
        None,
        "nothing",
    ]


SHORT, LONG = "one two three", " ".join(map(str, range(60)))


def text(*rows: tuple[str, str, str], target: str = "fr") -> TranslatedText:
    sources, references, translations = zip(*rows, strict=True)
    return TranslatedText("en", target, sources, references, translations)


def test_sentences_are_scored_with_those_of_their_length() -> None:
    right, wrong = ("a b c d e f", "a b c d e f"), ("a b c d e f", "u v w x y z")
    short, middle, long = score_by_length(text((SHORT, *right), (LONG, *wrong), (SHORT + " four", *right)))
    assert [str(bucket) for bucket in (short, middle, long)] == ["1–3", "4–5", "over 50"]
    assert [bucket.count for bucket in (short, middle, long)] == [1, 1, 1]
    assert [short.scores.bleu, long.scores.bleu] == pytest.approx([100, 0], abs=1)


def test_characters_are_words_where_there_are_no_spaces() -> None:
    (bucket,) = score_by_length(text(("我们今天去学校", "we go", "we go")))
    assert str(bucket) == "6–8"


def test_directions_without_some_length_are_drawn_as_well(tmp_path: Path) -> None:
    row = ("a b c d", "a b c d")
    both = {
        "en-fr": score_by_length(text((SHORT, *row), (LONG, *row))),
        "fr-en": score_by_length(text((LONG, *row))),
    }
    write_by_length(both, "chrf", tmp_path / "made" / "chrf.png")
    assert (tmp_path / "made" / "chrf.png").read_bytes().startswith(b"\x89PNG")
