"""ⓓ Capitals, lower case, bare letters and slips of the finger, as people type."""

import re
import unicodedata
from random import Random

from model.text.casing import lower, upper
from model.text.languages import canonical_code, has_unspaced_words
from model.training.data.augmentation.context import Surroundings
from model.training.data.augmentation.sentences import without_final_stop
from model.training.data.corpus import SentencePair

_UNTYPED = re.compile("[¿¡]\\s?")
_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)")
_MARKED = re.compile("([A-Za-z])[\u0300-\u036f]+")
_SPELT_OUT = {"ß": "ss", "œ": "oe", "æ": "ae", "ø": "o", "ł": "l", "đ": "d"}
_UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue"}
_LONG_WORD = re.compile(r"[^\W\d_]{5,}")
_MOST_ERRORS = 2


def in_capitals(pair: SentencePair, around: Surroundings, _: Random) -> SentencePair | None:
    """Both sides in capitals, as far as their scripts have them; None if the source's has not.

    Nothing in a source without case could tell that its translation is to be in capitals.
    """
    source = upper(pair.source, around.source_language)
    if source == pair.source or has_unspaced_words(around.source_language):
        return None
    return SentencePair(source, upper(pair.target, around.target_language))


def capitalised(pair: SentencePair, around: Surroundings, _: Random) -> SentencePair | None:
    """Both sides with a first capital, as buttons have it; None unless the source has a small letter there.

    A German noun in the source has its capital anyway, and says nothing about the translation's.
    """
    if not pair.source[0].islower():
        return None
    source, target = (
        upper(side[0], language) + side[1:]
        for side, language in zip(pair, (around.source_language, around.target_language), strict=True)
    )
    return SentencePair(source, target)


def in_lower_case(pair: SentencePair, around: Surroundings, generator: Random) -> SentencePair | None:
    """A source in lower case and its translation as it was; half of the time both without final stop."""
    source = lower(pair.source, around.source_language)
    if source == pair.source:
        return None
    altered = SentencePair(source, pair.target)
    bare = without_final_stop(altered, around, generator) if generator.random() < 0.5 else None
    return bare or altered


def in_plain_letters(pair: SentencePair, around: Surroundings, generator: Random) -> SentencePair | None:
    """A source as on a keyboard without accents: *ou est l'hotel*, *como estas?*, *schoen*; *i cant*.

    Umlauts are two letters in German, ¿ and ¡ are left out. Half of those that lost something have no
    apostrophes within words either; of the others that is all there is to leave out. Half of all are then as
    `in_lower_case` makes them. None if there is nothing to leave out; Latin letters alone lose their marks.
    """
    source = _UNTYPED.sub("", _without_marks(_spelt_out(pair.source, around.source_language)))
    if source == pair.source or generator.random() < 0.5:
        source = _APOSTROPHE.sub("", source)
    if source == pair.source:
        return None
    altered = SentencePair(source, pair.target)
    small = in_lower_case(altered, around, generator) if generator.random() < 0.5 else None
    return small or altered


def with_typing_errors(pair: SentencePair, around: Surroundings, generator: Random) -> SentencePair | None:
    """One or two slips in long words of the source; None if it has none, or is not typed by letters."""
    if has_unspaced_words(around.source_language):
        return None
    words = list(_LONG_WORD.finditer(pair.source))
    if not words:
        return None
    source = pair.source
    chosen = generator.sample(words, min(len(words), generator.randint(1, _MOST_ERRORS)))
    for match in sorted(chosen, key=lambda match: match.start(), reverse=True):
        source = source[: match.start()] + _mistyped(match.group(), generator) + source[match.end() :]
    return SentencePair(source, pair.target)


def _mistyped(word: str, generator: Random) -> str:
    """The word with one slip behind its first letter, which people get right; or without its accents."""
    plain = _without_marks(word)
    if plain != word and generator.random() < 0.5:
        return plain
    place = generator.randrange(1, len(word) - 1)
    slip = generator.choice(("swapped", "missing", "doubled"))
    if slip == "swapped" and word[place] != word[place + 1]:
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    if slip == "doubled":
        return word[: place + 1] + word[place:]
    return word[:place] + word[place + 1 :]


def _spelt_out(text: str, language: str) -> str:
    """Letters that no accent makes, in letters of every keyboard."""
    spelling = _SPELT_OUT | (_UMLAUTS if canonical_code(language) == "de" else {})

    def spelt(match: re.Match[str]) -> str:
        letters = spelling[match.group().lower()]
        if match.group().islower():
            return letters
        neighbours = match.string[max(match.start() - 1, 0) : match.end() + 1]
        return letters.upper() if neighbours.isupper() and len(neighbours) > 1 else letters.capitalize()

    return re.sub("|".join(spelling), spelt, text, flags=re.IGNORECASE)


def _without_marks(text: str) -> str:
    """Latin letters without what stands on or under them; marks of other scripts make other letters."""
    return unicodedata.normalize("NFC", _MARKED.sub(r"\1", unicodedata.normalize("NFD", text)))
