"""The share of words that come out right."""

from types import SimpleNamespace
from typing import cast

from benchmarks.words import drawn, share_right
from model.translator import Translator

ROWS = [["dog", "chien"], ["Hello!", "Bonjour !"], ["hello", "salut"], ["the old house", "la vieille maison"]]


class Known:
    """Knows a few words, and gives back what it does not know."""

    def translate(self, texts: list[str], *, source: str, target: str) -> list[SimpleNamespace]:
        assert (source, target) == ("en", "fr")
        known = {"dog": "Chien.", "Hello!": "Salut !"}
        return [SimpleNamespace(text=known.get(text, text)) for text in texts]


def test_any_translation_of_the_same_text_is_right_and_a_copy_is_not() -> None:
    assert share_right(cast("Translator", Known()), ROWS, ("en", "fr"), ("en", "fr")) == 2 / 4


def test_entries_of_too_many_words_are_not_drawn_and_a_seed_draws_the_same_ones() -> None:
    some = drawn(ROWS, 2, 2, 1)
    assert len(some) == 2
    assert some == drawn(ROWS, 2, 2, 1)
    assert {row[0] for row in drawn(ROWS, 9, 2, 1)} == {"dog", "Hello!", "hello"}
