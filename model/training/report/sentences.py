"""The sentences of a validation: compared with an earlier validation, and scored by length."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sacrebleu.metrics.chrf import CHRF

from model.evaluation.scores import TranslationScores, score_translations
from model.text.languages import count_words
from model.training.validation import TranslatedText

_EDGES = (0, 4, 6, 9, 13, 21, 31, 51, 10**9)


@dataclass(frozen=True, kw_only=True)
class SentenceHistory:
    """Two translations of one sentence; their chrF (0 to 100) is good for ranking only.

    Attributes:
        source: The sentence.
        reference: Its reference.
        before: Translation in an earlier validation; None if there is none.
        after: Translation in the newer validation.
        chrf: chrF of `after`.
        gain: Difference in chrF; 0 without an earlier translation.
    """

    source: str
    reference: str
    before: str | None
    after: str
    chrf: float
    gain: float


def sentence_histories(before: TranslatedText | None, after: TranslatedText) -> list[SentenceHistory]:
    """Score every sentence in two validations.

    Args:
        before: An earlier validation of the same direction; it may lack sentences of the newer one.
        after: The newer validation.
    """
    metric = CHRF()
    earlier = {(row.source, row.reference): row.translation for row in before.rows()} if before else {}
    histories = []
    for source, reference, translation in after.rows():
        past = earlier.get((source, reference))
        chrf = float(metric.sentence_score(translation, [reference]).score)
        gain = 0.0 if past is None else chrf - float(metric.sentence_score(past, [reference]).score)
        histories.append(
            SentenceHistory(
                source=source, reference=reference, before=past, after=translation, chrf=chrf, gain=gain
            )
        )
    return histories


def remarkable(histories: Sequence[SentenceHistory], count: int) -> dict[str, list[SentenceHistory]]:
    """At most `count` sentences each: those with the lowest chrF, and those whose chrF rose or fell most."""
    gained = sorted(histories, key=lambda each: each.gain)
    return {
        "Worst": sorted(histories, key=lambda each: each.chrf)[:count],
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
    """Scores the sentences of each range of lengths; ranges without sentences are left out."""
    rows = [(count_words(row.source), row) for row in text.rows()]
    buckets = []
    for first, end in pairwise(_EDGES):
        found = [row for length, row in rows if first <= length < end]
        if found:
            longest = end - 1 if end < _EDGES[-1] else None
            references = [[row.reference for row in found]]
            scores = score_translations([row.translation for row in found], references, text.target_language)
            buckets.append(LengthBucket(max(first, 1), longest, len(found), scores))
    return tuple(buckets)
