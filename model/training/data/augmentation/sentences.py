"""ⓓ Pairs without their final stop, and several pairs in one."""

import re
from random import Random

from model.text.languages import has_unspaced_sentences
from model.training.data.augmentation.context import Surroundings
from model.training.data.corpus import SentencePair

_STOP = re.compile(r"\s*[.!?。！？…]+$")
_OPENING = "¿¡"
_MOST_JOINED = 3


def without_final_stop(pair: SentencePair, _: Surroundings, __: Random) -> SentencePair | None:
    """Both sides without it; None if one has none, or is nothing else."""
    source, target = stripped(pair.source), stripped(pair.target)
    return SentencePair(source, target) if source and target else None


def stripped(text: str) -> str | None:
    """A text without its final stop and the Spanish mark that opens it; None if there is no stop."""
    match = _STOP.search(text)
    if match is None:
        return None
    text = text[: match.start()]
    opening = max(text.rfind(mark) for mark in _OPENING)
    has_partner = opening >= 0 and match.group().strip()[0] in "!?"
    return text[:opening] + text[opening + 1 :] if has_partner else text


def split_stop(text: str) -> tuple[str, str]:
    """A text in front of its final stop, and that stop with the space before it."""
    match = _STOP.search(text)
    return (text, "") if match is None else (text[: match.start()], match.group())


def joined(pair: SentencePair, around: Surroundings, generator: Random) -> SentencePair | None:
    """The pair and one or two of its neighbours as one; None if it does not end in a stop."""
    pairs = [pair, *generator.choices(around.pairs, k=generator.randint(1, _MOST_JOINED - 1))]
    if not all(_STOP.search(side) for earlier in pairs[:-1] for side in earlier):
        return None
    return SentencePair(
        _gap(around.source_language).join(each.source for each in pairs),
        _gap(around.target_language).join(each.target for each in pairs),
    )


def _gap(language: str) -> str:
    return "" if has_unspaced_sentences(language) else " "
