"""③ ⑦ Casing: sentences in capitals, lone words with one capital, and the rules of some languages."""

import re
import unicodedata

from model.text.languages import canonical_code

_DOTTED_AND_DOTLESS_I = frozenset({"tr", "az"})
_WORD = re.compile(r"[^\W\d_]{2,}")
_SMALL_LETTER = re.compile("[a-z]")
_ALWAYS_SMALL = str.maketrans("", "", "ßºª")
_LONG_WORD = 4  # letters; shorter ones alone are as often abbreviations
_CAPITALISED_NOUNS = frozenset({"de", "lb"})


def upper(text: str, language: str) -> str:
    """Returns a text in capitals; in Turkish and Azerbaijani, `i` becomes `İ`."""
    return (text.replace("i", "İ") if canonical_code(language) in _DOTTED_AND_DOTLESS_I else text).upper()


def lower(text: str, language: str) -> str:
    """Returns a text in lower case; in Turkish and Azerbaijani, `I` becomes `ı`."""
    if canonical_code(language) in _DOTTED_AND_DOTLESS_I:
        text = text.replace("İ", "i").replace("I", "ı")
    return text.lower()


def is_in_capitals(sentence: str) -> bool:
    """Returns whether a sentence is written in capitals.

    It has two words in capitals or one of four letters, and no letter that is lower case or caseless.
    """
    if _SMALL_LETTER.search(sentence) or any(
        letter.islower() or unicodedata.category(letter) == "Lo"
        for letter in sentence.translate(_ALWAYS_SMALL)
    ):
        return False
    words = [word for word in _WORD.findall(sentence) if word.lower() != word]
    return len(words) > 1 or any(len(word) >= _LONG_WORD for word in words)


def as_read(sentence: str, language: str) -> str:
    """Returns a sentence in capitals with at most its first letter as a capital.

    A lone word gets no capital, except in German, where it is a noun as often as not: in other languages a
    capital would make it a name.
    """
    if len(_WORD.findall(sentence)) == 1 and canonical_code(language) not in _CAPITALISED_NOUNS:
        return lower(sentence, language)
    first = next(place for place, letter in enumerate(sentence, start=1) if letter.lower() != letter)
    return sentence[:first] + lower(sentence[first:], language)


def is_capitalised_word(sentence: str) -> bool:
    """Returns whether a sentence is one word of which only the first letter is a capital."""
    return sentence.isalpha() and sentence[0].isupper() and sentence[1:].islower()


def with_small_initial(text: str, language: str) -> str:
    """Returns a text with its first letter in lower case."""
    return lower(text[:1], language) + text[1:]


def with_capital_initial(text: str, language: str) -> str:
    """Returns a text with its first letter as a capital."""
    return upper(text[:1], language) + text[1:]
