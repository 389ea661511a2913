"""ⓕ Single sentences: how each is translated, and how it was before."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.chrf import CHRF

from model.training.held_out import Row, TranslatedText
from model.training.reporting.scores import bleu_metric


@dataclass(frozen=True)
class SentenceScore:
    """A translation and its scores, 0 to 100; they rank sentences, and mean little beyond that.

    Attributes:
        text: The translation.
        bleu: Of n-grams up to the sentence's own length.
        chrf: chrF2.
    """

    text: str
    bleu: float
    chrf: float


@dataclass(frozen=True)
class SentenceHistory:
    """What has become of one sentence.

    Attributes:
        source: Of it.
        reference: Of it.
        before: Its translation in an earlier validation; None if there is none.
        after: Its translation now.
    """

    source: str
    reference: str
    before: SentenceScore | None
    after: SentenceScore

    @property
    def gain(self) -> float:
        """Points of chrF won, or lost; 0 without an earlier translation."""
        return self.after.chrf - self.before.chrf if self.before else 0.0


def sentence_histories(before: TranslatedText | None, after: TranslatedText) -> list[SentenceHistory]:
    """Score every sentence now and before.

    Args:
        before: The same direction in an earlier validation; sentences that it lacks have no past.
        after: The translations to judge.
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


def worst(histories: Sequence[SentenceHistory], count: int) -> list[SentenceHistory]:
    """Those with the lowest chrF, the lowest first."""
    return sorted(histories, key=lambda each: each.after.chrf)[:count]


def most_improved(histories: Sequence[SentenceHistory], count: int) -> list[SentenceHistory]:
    """Those that have won most chrF, and won any."""
    return sorted((each for each in histories if each.gain > 0), key=lambda each: -each.gain)[:count]


def most_worsened(histories: Sequence[SentenceHistory], count: int) -> list[SentenceHistory]:
    """Those that have lost most chrF, and lost any."""
    return sorted((each for each in histories if each.gain < 0), key=lambda each: each.gain)[:count]
