"""③ ⑦ Sentences in capitals, which are read in small letters and answered in capitals.

To a network `HELLO` has nothing to do with `Hello`: other pieces, which its text hardly had.
"""

import re
import unicodedata

from model.text.language_codes import canonical_code

_DOTTED_AND_DOTLESS_I = frozenset({"tr", "az"})
_WORD = re.compile(r"[^\W\d_]{2,}")
_LONG_WORD = 6  # letters; shorter ones alone are as often abbreviations


def upper(text: str, language: str) -> str:
    """Capitals, with the Turkish İ where it is one."""
    return (text.replace("i", "İ") if canonical_code(language) in _DOTTED_AND_DOTLESS_I else text).upper()


def lower(text: str, language: str) -> str:
    """Small letters, with the Turkish ı where it is one."""
    if canonical_code(language) in _DOTTED_AND_DOTLESS_I:
        text = text.replace("İ", "i").replace("I", "ı")
    return text.lower()


def is_in_capitals(sentence: str) -> bool:
    """Whether it has two words or a long one in capitals, and nothing else: no small or caseless letters."""
    if any(letter.islower() or unicodedata.category(letter) == "Lo" for letter in sentence.replace("ß", "")):
        return False
    words = [word for word in _WORD.findall(sentence) if word.lower() != word]
    return len(words) > 1 or any(len(word) >= _LONG_WORD for word in words)


def as_read(sentence: str, language: str) -> str:
    """What a network is given of a sentence; of one in capitals, the first letter alone is one."""
    if not is_in_capitals(sentence):
        return sentence
    first = next(place for place, letter in enumerate(sentence, start=1) if letter.lower() != letter)
    return sentence[:first] + lower(sentence[first:], language)


def as_written(translation: str, sentence: str, language: str) -> str:
    """A translation in the capitals of its sentence.

    Args:
        translation: Of what `as_read` gave, in full or its beginning.
        sentence: As it stood in the text.
        language: Of the translation.
    """
    return upper(translation, language) if is_in_capitals(sentence) else translation
