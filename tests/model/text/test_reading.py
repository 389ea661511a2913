"""Which letters of a lone word the network reads, and which its translation gets."""

import pytest

from model.text.casing import source_ids, was_read_small
from model.text.normalisation import clean
from model.text.tokenizer import Tokenizer
from model.translation.result import finished_text

BOS, EOS = 1, 2


class Pieces:
    """Knows some words as one piece, in any place; spells all others by letters. Its tag is ⟨1⟩."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def encode(self, text: str, *, target_language: str | None = None) -> list[int]:
        pieces = [text] if text in self._words else list(text)
        return [BOS, *(sum(map(ord, piece)) for piece in pieces), EOS]


def tokenizer(*words: str) -> Tokenizer:
    return Pieces(*words)  # type: ignore[return-value]


def read(sentence: str, language: str, *words: str) -> str:
    """`small`, or `as it stands`, whatever else may be."""
    known = tokenizer(*words)
    ids = source_ids(sentence, (language, "fr"), known)
    small = was_read_small(sentence, "fr", ids, known)
    assert (ids == tuple(known.encode(clean(sentence)))) != small
    return "small" if small else "as it stands"


@pytest.mark.parametrize(
    ("sentence", "language", "words"),
    [
        ("Exit", "en", ["exit"]),
        ("Été", "fr", ["été"]),
        ("Abbrechen", "de", ["abbrechen"]),
        ("Izgara", "tr", ["ızgara"]),
        ("Can\u00adcel", "en", ["cancel"]),
        ("Socie\u0301te\u0301", "fr", ["société"]),
    ],
)
def test_a_word_that_is_a_piece_only_in_small_letters_is_read_in_them(
    sentence: str, language: str, words: list[str]
) -> None:
    assert read(sentence, language, *words) == "small"


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("Paris", ["Paris", "paris"]),
        ("Paris", ["Paris"]),
        ("Bilbao", []),
        ("exit", ["exit"]),
        ("Exit!", ["exit", "exit!"]),
        ("Exit here", ["exit", "exit here"]),
        ("iPhone", ["iphone"]),
        ("McDonald", ["mcDonald"]),
        ("I", ["i"]),
        ("出口", ["出口"]),
        ("", [""]),
    ],
)
def test_all_else_is_read_as_it_stands(sentence: str, words: list[str]) -> None:
    assert read(sentence, "en", *words) == "as it stands"


def test_its_translation_gets_the_capital_back() -> None:
    assert finished_text("sortie de secours", "Exit", "fr", was_small=True) == "Sortie de secours"
    assert finished_text("izin", "Permission", "tr", was_small=True) == "İzin"
    assert finished_text("出口", "Exit", "zh", was_small=True) == "出口"
    assert finished_text("", "Exit", "fr", was_small=True) == ""
    assert finished_text("lundi", "Monday", "fr") == "lundi"
