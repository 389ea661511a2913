"""③ ⑦ Sentences in capitals, read in lower case and answered in capitals; words with one capital.

To a network `HELLO` has nothing to do with `Hello`: other pieces, which its text hardly had. Nor has
`Cancel`, alone on a button, with `cancel` inside a sentence.
"""

import re
import unicodedata
from collections.abc import Sequence

from model.text.languages import canonical_code
from model.text.normalisation import clean
from model.text.tokenizer import Tokenizer

_DOTTED_AND_DOTLESS_I = frozenset({"tr", "az"})
_WORD = re.compile(r"[^\W\d_]{2,}")
_ALWAYS_SMALL = str.maketrans("", "", "ßºª")
_LONG_WORD = 4  # letters; shorter ones alone are as often abbreviations
_CAPITALISED_NOUNS = frozenset({"de", "lb"})


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
    if any(
        letter.islower() or unicodedata.category(letter) == "Lo"
        for letter in sentence.translate(_ALWAYS_SMALL)
    ):
        return False
    words = [word for word in _WORD.findall(sentence) if word.lower() != word]
    return len(words) > 1 or any(len(word) >= _LONG_WORD for word in words)


def as_read(sentence: str, language: str) -> str:
    """What a network is given of a sentence; of one in capitals, the first letter alone is one.

    A lone word has none, but in German, where it is a noun as often as not: capitalised it would be a name.
    """
    if not is_in_capitals(sentence):
        return sentence
    if len(_WORD.findall(sentence)) == 1 and canonical_code(language) not in _CAPITALISED_NOUNS:
        return lower(sentence, language)
    first = next(place for place, letter in enumerate(sentence, start=1) if letter.lower() != letter)
    return sentence[:first] + lower(sentence[first:], language)


def as_written(translation: str, sentence: str, language: str, *, was_small: bool = False) -> str:
    """A translation in the capitals of its sentence.

    Args:
        translation: Of what `as_read` or `as_small_word` gave, in full or its beginning.
        sentence: As it stood in the text.
        language: Of the translation.
        was_small: Whether it was `as_small_word`.
    """
    if was_small:
        return upper(translation[:1], language) + translation[1:]
    return upper(translation, language) if is_in_capitals(sentence) else translation


def is_capitalised_word(sentence: str) -> bool:
    """Whether it is a lone word, and its first letter alone is a capital."""
    return sentence.isalpha() and sentence[0].isupper() and sentence[1:].islower()


def as_small_word(word: str, language: str) -> str:
    """A capitalised word as it stands inside sentences."""
    return lower(word[0], language) + word[1:]


def source_ids(sentence: str, pair: tuple[str, str], tokenizer: Tokenizer) -> tuple[int, ...]:
    """Ids of a sentence, in small letters where it is in capitals.

    A lone word with a first capital loses it where the vocabulary has the word as one piece without it, but
    not with it: `Cancel` is then read as `cancel`, while `Paris`, which is one piece as it stands, and
    `Bilbao`, which is none either way, stay.

    Args:
        sentence: As it stands in the text.
        pair: Codes of its language and of the one it is to become.
        tokenizer: Of the checkpoint.
    """
    source, target = pair
    sentence = clean(sentence)
    ids = tokenizer.encode(as_read(sentence, source), target_language=target)
    if is_capitalised_word(sentence):
        small = tokenizer.encode(as_small_word(sentence, source), target_language=target)
        length_of_one_piece = len(tokenizer.encode("", target_language=target)) + 1
        if len(small) == length_of_one_piece < len(ids):
            return tuple(small)
    return tuple(ids)


def was_read_small(sentence: str, target: str, ids: Sequence[int], tokenizer: Tokenizer) -> bool:
    """Whether `source_ids` took a first capital from a lone word.

    Args:
        sentence: As it stood in the text.
        target: Language it is translated into.
        ids: What `source_ids` gave.
        tokenizer: The same.
    """
    sentence = clean(sentence)
    return is_capitalised_word(sentence) and tokenizer.encode(sentence, target_language=target) != list(ids)
