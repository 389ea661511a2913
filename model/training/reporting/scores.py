"""ⓕ BLEU and chrF of translations, by sacreBLEU, with the signatures that make them comparable."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

_TOKENIZERS = {"zh": "zh", "ja": "char", "ko": "char", "th": "char"}
"""sacreBLEU's tokenizer for target languages that put no spaces between words."""


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
    translations: Sequence[str], references: Sequence[str], target_language: str
) -> TranslationScores:
    """Score translations against one reference each; case and punctuation count."""
    bleu = BLEU(tokenize=_TOKENIZERS.get(target_language, "13a"))
    chrf = CHRF()
    return TranslationScores(
        bleu=float(bleu.corpus_score(translations, [references]).score),
        bleu_signature=str(bleu.get_signature()),
        chrf=float(chrf.corpus_score(translations, [references]).score),
        chrf_signature=str(chrf.get_signature()),
    )
