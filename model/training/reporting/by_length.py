"""ⓕ BLEU and chrF of short and of long sentences, apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from model.text.scripts import count_words
from model.training.held_out import Row, TranslatedText
from model.training.reporting.curves import write_picture
from model.training.reporting.scores import TranslationScores, score_translations
from model.training.run_config import METRIC_NAMES, Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_EDGES = (0, 4, 6, 9, 13, 21, 31, 51, 10**9)


@dataclass(frozen=True)
class LengthBucket:
    """Sentences whose source is about equally long.

    Attributes:
        shortest: Fewest words of a source, each Han, kana or Hangul character being one.
        longest: Most words; None for no bound.
        count: Sentences.
        scores: Of these sentences alone.
    """

    shortest: int
    longest: int | None
    count: int
    scores: TranslationScores

    def __str__(self) -> str:
        return f"{self.shortest}–{self.longest}" if self.longest else f"over {self.shortest - 1}"


def score_by_length(text: TranslatedText) -> tuple[LengthBucket, ...]:
    """The buckets that hold something, short sentences first."""
    rows = [(count_words(row.source), row) for row in text.rows()]
    buckets = []
    for first, end in pairwise(_EDGES):
        found = [row for length, row in rows if first <= length < end]
        if found:
            longest = end - 1 if end < _EDGES[-1] else None
            scores = _scores(found, text.target_language)
            buckets.append(LengthBucket(max(first, 1), longest, len(found), scores))
    return tuple(buckets)


def write_by_length(by_pair: Mapping[str, Sequence[LengthBucket]], metric: Metric, path: Path) -> None:
    """Draw a metric of all directions over the length of the source as PNG."""
    names = {bucket.shortest: str(bucket) for buckets in by_pair.values() for bucket in buckets}
    places = {shortest: place for place, shortest in enumerate(sorted(names))}

    def draw(axes: "Axes") -> None:
        for pair, buckets in by_pair.items():
            across = [places[bucket.shortest] for bucket in buckets]
            axes.plot(across, [getattr(bucket.scores, metric) for bucket in buckets], marker="o", label=pair)
        axes.set_xticks(list(places.values()), [names[shortest] for shortest in places])

    write_picture(path, "words of the source", METRIC_NAMES[metric], draw)


def _scores(rows: Sequence[Row], target_language: str) -> TranslationScores:
    return score_translations(
        [row.translation for row in rows], [[row.reference for row in rows]], target_language
    )
