from pathlib import Path

import pytest

from model.training.report.translations import score_by_length, write_by_length
from model.training.validation import TranslatedText

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
