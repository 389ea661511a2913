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
    return any(
        len(ids) >= size * _REPETITIONS
        and tuple(ids[-size * _REPETITIONS :]) == tuple(ids[-size:]) * _REPETITIONS
        for size in range(1, _LONGEST_LOOP + 1)
    )
