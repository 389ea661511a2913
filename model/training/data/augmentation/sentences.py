"""ⓓ Alterations of whole sentences: pairs without final stop, and several pairs joined; their context."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

from model.text.languages import has_unspaced_sentences
from model.training.data.corpus import SentencePair

_LOWER_CASE_WORD = re.compile(r"\b[^\W\d_A-ZÀ-ÖØ-Þ][^\W\d_]+")
_STOP = re.compile(r"\s*[.!?。！？…]+$")
_OPENING = "¿¡"
_MOST_JOINED = 3


@dataclass(frozen=True)
class SentenceContext:
    """What an alteration may read in addition to the pair that it alters.

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
