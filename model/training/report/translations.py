"""ⓕ Translations of validations, sentence by sentence: kept, compared, and scored by length.

A run keeps two files, for the first and for the best validation; each is replaced atomically.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from sacrebleu.metrics.chrf import CHRF

from model.evaluation import METRIC_NAMES, Metric
from model.evaluation.scores import TranslationScores, bleu_metric, score_translations
from model.files import write_text_atomically
from model.text.scripts import count_words
from model.training.report.curves import write_picture
from model.training.validation.validator import Row, TranslatedText

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Moment = Literal["first", "best"]
_MOMENTS: tuple[Moment, ...] = ("first", "best")

_EDGES = (0, 4, 6, 9, 13, 21, 31, 51, 10**9)


@dataclass(frozen=True)
class Translations:
    """Translations of one validation.

    Attributes:
        step: Step of the validation.
        texts: One for each direction.
    """

    step: int
    texts: tuple[TranslatedText, ...]

    def to_json(self) -> str:
        """The translations as a JSON document."""
        return json.dumps({"step": self.step, "texts": [vars(t) for t in self.texts]}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The translations in such a document."""
        values: dict[str, Any] = json.loads(text)
        return cls(values["step"], tuple(TranslatedText(**_with_tuples(t)) for t in values["texts"]))


class KeptTranslations:
    """Reads and writes the files.

    Args:
        folder: Their folder; created with the first file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, translations: Translations, *, is_best: bool) -> None:
        """Keep translations as the first if there are none yet, and as the best if `is_best`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        wanted = {"first": not self._file("first").exists(), "best": is_best}
        for moment in _MOMENTS:
            if wanted[moment]:
                write_text_atomically(self._file(moment), translations.to_json())

    def read(self, moment: Moment) -> Translations | None:
        """The first or the best translations; None if there are none."""
        file = self._file(moment)
        return Translations.from_json(file.read_text(encoding="utf-8")) if file.exists() else None

    def rewind(self, step: int) -> None:
        """Delete translations made after `step`, whose validations will be repeated."""
        for moment in _MOMENTS:
            found = self.read(moment)
            if found is not None and found.step > step:
                self._file(moment).unlink()

    def _file(self, moment: Moment) -> Path:
        return self._folder / f"{moment}.json"


def _with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}


@dataclass(frozen=True)
class SentenceScore:
    """A translation and its scores from 0 to 100; sentence scores are good for ranking only.

    Attributes:
        text: The translation.
        bleu: BLEU of n-grams up to the sentence's own length.
        chrf: chrF2.
    """

    text: str
    bleu: float
    chrf: float


@dataclass(frozen=True)
class SentenceHistory:
    """Two translations of one sentence.

    Attributes:
        source: The sentence.
        reference: Its reference.
        before: Translation in an earlier validation; None if there is none.
        after: Translation in the newer validation.
    """

    source: str
    reference: str
    before: SentenceScore | None
    after: SentenceScore

    @property
    def gain(self) -> float:
        """Difference in chrF; 0 without an earlier translation."""
        return self.after.chrf - self.before.chrf if self.before else 0.0


def sentence_histories(before: TranslatedText | None, after: TranslatedText) -> list[SentenceHistory]:
    """Score every sentence in two validations.

    Args:
        before: An earlier validation of the same direction; it may lack sentences of the newer one.
        after: The newer validation.
    """
    bleu, chrf = bleu_metric(after.target_language, for_sentences=True), CHRF()
    earlier = {(row.source, row.reference): row for row in before.rows()} if before else {}

    def score(row: Row) -> SentenceScore:
        against = [row.reference]
        return SentenceScore(
            row.translation,
            float(bleu.sentence_score(row.translation, against).score),
            float(chrf.sentence_score(row.translation, against).score),
        )

    return [
        SentenceHistory(row.source, row.reference, score(past) if past else None, score(row))
        for row in after.rows()
        for past in (earlier.get((row.source, row.reference)),)
    ]


def remarkable(histories: Sequence[SentenceHistory], count: int) -> dict[str, list[SentenceHistory]]:
    """At most `count` sentences each: those with the lowest chrF, and those whose chrF rose or fell most."""
    gained = sorted(histories, key=lambda each: each.gain)
    return {
        "Worst": sorted(histories, key=lambda each: each.after.chrf)[:count],
        "Most improved": [each for each in reversed(gained) if each.gain > 0][:count],
        "Worsened": [each for each in gained if each.gain < 0][:count],
    }


@dataclass(frozen=True)
class LengthBucket:
    """Sentences with sources of similar length.

    Attributes:
        shortest: Fewest words of a source; a Han, kana or Hangul character counts as one word.
        longest: Most words; None for no bound.
        count: Number of sentences.
        scores: Scores of these sentences.
    """

    shortest: int
    longest: int | None
    count: int
    scores: TranslationScores

    def __str__(self) -> str:
        return f"{self.shortest}–{self.longest}" if self.longest else f"over {self.shortest - 1}"


def score_by_length(text: TranslatedText) -> tuple[LengthBucket, ...]:
    """The non-empty buckets, short sentences first."""
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
