"""ⓕ BLEU and chrF of translations, by sacreBLEU, with the signatures that make them comparable."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from model.text.language_codes import canonical_code, has_unspaced_words
from model.training.run_config import Metric

References = Sequence[Sequence[str | None]]
"""Columns: the first reference of every sentence, then the second, …; None where one has fewer."""


@dataclass(frozen=True)
class TranslationScores:
    """Corpus scores, 0 to 100.

    Attributes:
        bleu: Papineni et al. 2002.
        bleu_signature: How it was computed.
        chrf: chrF2, Popović 2015.
        chrf_signature: How it was computed.
    """

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str


def score_translations(
    translations: Sequence[str], references: References, target_language: str
) -> TranslationScores:
    """Score translations against their references; case and punctuation count."""
    bleu, chrf = bleu_metric(target_language), CHRF()
    columns = cast(Sequence[Sequence[str]], references)  # sacreBLEU takes None, but does not say so
    return TranslationScores(
        bleu=float(bleu.corpus_score(translations, columns).score),
        bleu_signature=str(bleu.get_signature()),
        chrf=float(chrf.corpus_score(translations, columns).score),
        chrf_signature=str(chrf.get_signature()),
    )


def mean_score(scores: Collection[TranslationScores], metric: Metric) -> float:
    """Mean of a metric over directions."""
    return sum(float(getattr(each, metric)) for each in scores) / len(scores)


def bleu_metric(target_language: str, *, for_sentences: bool = False) -> BLEU:
    """BLEU as it is counted in a language.

    Args:
        target_language: Code.
        for_sentences: Leave out n-grams longer than a sentence, so that short ones can score at all.
    """
    return BLEU(tokenize=_tokenizer(target_language), effective_order=for_sentences)


def _tokenizer(language: str) -> str:
    """SacreBLEU's name for it; characters where spaces do not show words, or, in Korean, not these."""
    if canonical_code(language) == "zh":
        return "zh"
    return "char" if has_unspaced_words(language) or canonical_code(language) == "ko" else "13a"
