"""Translations that look broken, so that a dashboard shows when a model goes wrong."""

from collections.abc import Sequence

from model.passage import SentenceTranslation

# Metric labels.
KINDS = ("unfinished", "empty", "loop")
_LONGEST_LOOP = 4
_REPETITIONS = 4


def degeneration(sentence: SentenceTranslation) -> str | None:
    """What looks broken about a translation, one of KINDS, or nothing."""
    best = sentence.hypotheses[0]
    if not best.finished:
        return "unfinished"
    if not sentence.text.strip():
        return "empty"
    return "loop" if _ends_in_loop(best.token_ids) else None


def _ends_in_loop(ids: Sequence[int]) -> bool:
    """Whether the last few tokens are one short group, over and over."""
    for size in range(1, _LONGEST_LOOP + 1):
        if len(ids) < size * _REPETITIONS:
            return False
        if ids[-1] == ids[-1 - size] and _repeats(ids[-size * _REPETITIONS :], size):
            return True
    return False


def _repeats(ids: Sequence[int], size: int) -> bool:
    """Whether all of it is its first group of this size, over and over."""
    return all(ids[place] == ids[place - size] for place in range(size, len(ids)))
