"""ⓕ BLEU of a single short sentence, as Dive into Deep Learning defines it."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


def sentence_bleu(translation: str, reference: str, *, max_order: int = 2) -> float:
    """How much of a translation's n-grams is in the reference; longer ones weigh more.

    exp(min(0, 1 − r / t)) · ∏ pₙ^(1/2ⁿ) for n = 1 … min(k, t), with t and r words of the translation
    and the reference and pₙ the share of the translation's n-grams that match, each as often as the
    reference has it (https://d2l.ai/chapter_recurrent-modern/seq2seq.html). It is kind to sentences
    of a few words, where corpus BLEU with its four orders says little; compare it with no other BLEU.

    Args:
        translation: Words separated by spaces; case and punctuation count.
        reference: The same.
        max_order: Words of the longest n-grams, k; at least 1.

    Returns:
        From 0 to 1; 1 for equal sentences, 0 where nothing was translated but should have been.
    """
    words, expected = translation.split(), reference.split()
    if not words:
        return float(not expected)
    score = math.exp(min(0.0, 1 - len(expected) / len(words)))
    for order in range(1, min(max_order, len(words)) + 1):
        score *= _precision(words, expected, order) ** (0.5**order)
    return score


@dataclass(frozen=True)
class ScoredSentence:
    """One translation beside its reference.

    Attributes:
        source: What was translated.
        reference: What it should become.
        translation: What it became.
        bleu: `sentence_bleu`, from 0 to 1.
    """

    source: str
    reference: str
    translation: str
    bleu: float

    def __str__(self) -> str:
        return f"{self.source} → {self.translation}  {self.bleu:.3f}"


def _precision(words: Sequence[str], expected: Sequence[str], order: int) -> float:
    found = _ngrams(words, order)
    return (found & _ngrams(expected, order)).total() / found.total()


def _ngrams(words: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + order]) for i in range(len(words) - order + 1))
