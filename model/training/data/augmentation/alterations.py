"""ⓓ Alterations of a pair: without final stop, joined, in capitals, as typed on other keyboards, mistyped."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

from model.text.casing import lower, upper
from model.text.languages import canonical_code, has_unspaced_sentences, has_unspaced_words
from model.training.data.corpus import SentencePair

_LOWER_CASE_WORD = re.compile(r"\b[^\W\d_A-ZÀ-ÖØ-Þ][^\W\d_]+")
_STOP = re.compile(r"\s*[.!?。！？…]+$")
_OPENING = "¿¡"
_MOST_JOINED = 3


@dataclass(frozen=True)
class SentenceContext:
    """The context of a pair, which its alteration may read.

    Attributes:
        source_language: Code.
        target_language: Code.
        pairs: Adjacent pairs in the corpus, including the pair itself.
    """

    source_language: str
    target_language: str
    pairs: Sequence[SentencePair]

    @cached_property
    def common_words(self) -> frozenset[str]:
        """Words in lower case anywhere in `pairs`, which therefore are not names."""
        return frozenset(
            word for pair in self.pairs for side in pair for word in _LOWER_CASE_WORD.findall(side)
        )


def without_final_stop(pair: SentencePair, _: SentenceContext, __: Random) -> SentencePair | None:
    """Both sides without their final stop; None if a side has none, or consists of it."""
    source, target = stripped(pair.source), stripped(pair.target)
    return SentencePair(source, target) if source and target else None


def stripped(text: str) -> str | None:
    """A text without its final stop and the opening Spanish mark of that stop; None if it has no stop."""
    match = _STOP.search(text)
    if match is None:
        return None
    text = text[: match.start()]
    opening = max(text.rfind(mark) for mark in _OPENING)
    has_partner = opening >= 0 and match.group().strip()[0] in "!?"
    return text[:opening] + text[opening + 1 :] if has_partner else text


def split_stop(text: str) -> tuple[str, str]:
    """A text before its final stop, and the stop with the space before it."""
    match = _STOP.search(text)
    return (text, "") if match is None else (text[: match.start()], match.group())


def joined(pair: SentencePair, context: SentenceContext, generator: Random) -> SentencePair | None:
    """The pair joined with one or two pairs of its context; None if one of them lacks its final stop."""
    pairs = [pair, *generator.choices(context.pairs, k=generator.randint(1, _MOST_JOINED - 1))]
    if not all(_STOP.search(side) for earlier in pairs[:-1] for side in earlier):
        return None
    return SentencePair(
        _gap(context.source_language).join(each.source for each in pairs),
        _gap(context.target_language).join(each.target for each in pairs),
    )


def _gap(language: str) -> str:
    return "" if has_unspaced_sentences(language) else " "


_UNTYPED = re.compile("[¿¡]\\s?")
_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)")
_MARKED = re.compile("([A-Za-z])[\u0300-\u036f]+")
_SPELT_OUT = {"ß": "ss", "œ": "oe", "æ": "ae", "ø": "o", "ł": "l", "đ": "d"}
_UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue"}
_LONG_WORD = re.compile(r"[^\W\d_]{5,}")
_MOST_ERRORS = 2


def in_capitals(pair: SentencePair, context: SentenceContext, _: Random) -> SentencePair | None:
    """Both sides in capitals; None if the source's script has no case.

    A source without case cannot express that its translation is in capitals.
    """
    source = upper(pair.source, context.source_language)
    if source == pair.source or has_unspaced_words(context.source_language):
        return None
    return SentencePair(source, upper(pair.target, context.target_language))


def capitalised(pair: SentencePair, context: SentenceContext, _: Random) -> SentencePair | None:
    """Both sides with a first capital, as on buttons; None unless the source begins with a small letter.

    A German noun has its capital in any case, which says nothing about the translation.
    """
    if not pair.source[0].islower():
        return None
    source, target = (
        upper(side[0], language) + side[1:]
        for side, language in zip(pair, (context.source_language, context.target_language), strict=True)
    )
    return SentencePair(source, target)


def in_lower_case(pair: SentencePair, context: SentenceContext, generator: Random) -> SentencePair | None:
    """The source in lower case, the target unchanged; in half of the copies both without final stop."""
    source = lower(pair.source, context.source_language)
    if source == pair.source:
        return None
    altered = SentencePair(source, pair.target)
    bare = without_final_stop(altered, context, generator) if generator.random() < 0.5 else None
    return bare or altered


def in_plain_letters(pair: SentencePair, context: SentenceContext, generator: Random) -> SentencePair | None:
    """The source as typed on a keyboard without accents: *ou est l'hotel*, *como estas?*, *schoen*; *i cant*.

    Latin letters lose their accents, German umlauts become two letters, ¿ and ¡ are removed. Half of the
    sources that changed lose the apostrophes within words too, and so do all sources that did not change.
    Half of the results pass through `in_lower_case`. None if nothing changed.
    """
    source = _UNTYPED.sub("", _without_marks(_spelt_out(pair.source, context.source_language)))
    if source == pair.source or generator.random() < 0.5:
        source = _APOSTROPHE.sub("", source)
    if source == pair.source:
        return None
    altered = SentencePair(source, pair.target)
    small = in_lower_case(altered, context, generator) if generator.random() < 0.5 else None
    return small or altered


def with_typing_errors(
    pair: SentencePair, context: SentenceContext, generator: Random
) -> SentencePair | None:
    """One or two typing errors in long words of the source; None if there are none, or it has no spaces."""
    if has_unspaced_words(context.source_language):
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
    """The word with one error after its first letter, or without its accents."""
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
    """The text with letters such as ß, ø and German umlauts spelt in ASCII letters."""
    spelling = _SPELT_OUT | (_UMLAUTS if canonical_code(language) == "de" else {})

    def spelt(match: re.Match[str]) -> str:
        letters = spelling[match.group().lower()]
        if match.group().islower():
            return letters
        neighbours = match.string[max(match.start() - 1, 0) : match.end() + 1]
        return letters.upper() if neighbours.isupper() and len(neighbours) > 1 else letters.capitalize()

    return re.sub("|".join(spelling), spelt, text, flags=re.IGNORECASE)


def _without_marks(text: str) -> str:
    """The text with Latin letters without their diacritics; other scripts keep theirs."""
    return unicodedata.normalize("NFC", _MARKED.sub(r"\1", unicodedata.normalize("NFD", text)))
