"""ⓕ BLEU and chrF by sacreBLEU, their confidence intervals, and the BLEU of a single sentence.

For a confidence interval, as many sentences as the text has are drawn from it with replacement, 1000 times,
and each draw is scored; the spread of these scores shows how certain the score is (Koehn 2004,
https://aclanthology.org/W04-3250).
"""

import math
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, Result

from model.errors import ConfigError
from model.evaluation import EvaluationText, Metric, References
from model.text.languages import canonical_code, has_unspaced_words

RESAMPLES = 1000
_SEED = "SACREBLEU_SEED"


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
    """Scores translations against their references; case and punctuation count."""
    bleu, chrf = bleu_metric(target_language), CHRF()
    columns = cast(Sequence[Sequence[str]], references)  # sacreBLEU takes None, but does not say so
    return TranslationScores(
        bleu=float(bleu.corpus_score(translations, columns).score),
        bleu_signature=str(bleu.get_signature()),
        chrf=float(chrf.corpus_score(translations, columns).score),
        chrf_signature=str(chrf.get_signature()),
    )


def mean_score(scores: Collection[TranslationScores], metric: Metric) -> float:
    """Returns the mean of a metric over directions."""
    return sum(float(getattr(each, metric)) for each in scores) / len(scores)


def bleu_metric(target_language: str) -> BLEU:
    """Returns sacreBLEU's BLEU for a language, whose code decides how words are counted."""
    return BLEU(tokenize=_tokenizer(target_language))


def _tokenizer(language: str) -> str:
    """Returns sacreBLEU's tokenizer; characters for Korean, and where no spaces separate words."""
    if canonical_code(language) == "zh":
        return "zh"
    return "char" if has_unspaced_words(language) or canonical_code(language) == "ko" else "13a"


@dataclass(frozen=True)
class Estimate:
    """A corpus score, 0 to 100, with its confidence interval.

    Attributes:
        score: Score of the text.
        mean: Mean score of the resampled texts.
        interval: Half the width of the interval that holds 95 % of the resampled scores.
        p_value: Probability that chance alone makes a difference to the baseline as large as the one found;
            None without a baseline.
        signature: SacreBLEU's signature, with resamples and seed (SACREBLEU_SEED).
    """

    score: float
    mean: float
    interval: float
    p_value: float | None
    signature: str


Estimates = Mapping[Metric, Estimate]


def check_seed() -> None:
    """Refuses a seed that sacreBLEU cannot use, before any text is translated.

    Raises:
        ConfigError: If SACREBLEU_SEED is set, and is neither a whole number nor `none`.
    """
    seed = os.environ.get(_SEED, "none").lower()
    if seed != "none" and not (seed.isascii() and seed.isdigit()):
        raise ConfigError(_SEED, "a whole number from 0 up, or none for other figures every time", seed)


def bootstrap(
    translations: Sequence[str],
    references: References,
    target_language: str,
    *,
    baseline: Sequence[str] | None = None,
    resamples: int = RESAMPLES,
) -> tuple[Estimates, Estimates | None]:
    """Estimates the scores of a system, and compares it with a baseline on the same resampled texts.

    Args:
        translations: One for each sentence.
        references: See `References`.
        target_language: Decides how BLEU counts words.
        baseline: Translations of another system.
        resamples: Number of texts to draw; memory grows by 72 bytes a sentence.

    Returns:
        The estimates of the system and those of the baseline. The p-value of equal scores is 1, for which
        sacreBLEU's formula gives the smallest value.
    """
    systems = [("baseline", baseline)] if baseline is not None else []
    metrics: dict[Metric, SacreMetric] = {"bleu": bleu_metric(target_language), "chrf": CHRF()}
    test = PairedTest(
        [*systems, ("system", translations)],
        cast(Mapping[str, SacreMetric], metrics),
        cast(Sequence[Sequence[str]], references),
        test_type="bs",
        n_samples=resamples,
    )
    if test._seed == 0:  # sacreBLEU takes the number 0 for no seed
        test._seed = np.random.SeedSequence(0)  # type: ignore[assignment]
    signatures, results = test()
    system: dict[Metric, Estimate] = {}
    other: dict[Metric, Estimate] = {}
    for name, column in zip(metrics, signatures, strict=True):
        *before, after = cast(Sequence[Result], results[column])
        signature = str(signatures[column])
        p_value = 1.0 if before and before[0].score == after.score else after.p_value
        system[name] = _estimate(after, p_value, signature)
        if before:
            other[name] = _estimate(before[0], None, signature)
    return system, other or None


def _estimate(result: Result, p_value: float | None, signature: str) -> Estimate:
    mean, interval = float(result.mean or 0.0), float(result.ci or 0.0)
    return Estimate(float(result.score), mean, interval, p_value, signature)


def sentence_bleu(translation: str, reference: str, *, max_order: int = 2) -> float:
    """Returns the share of a translation's n-grams that the reference has; longer n-grams weigh more.

    exp(min(0, 1 − r / t)) · ∏ pₙ^(1/2ⁿ) for n = 1 … min(k, t), with t and r words of the translation
    and the reference and pₙ the share of the translation's n-grams that match, each as often as the
    reference has it (https://d2l.ai/chapter_recurrent-modern/seq2seq.html). It suits sentences of a few
    words, for which corpus BLEU with its four orders says little. It is not comparable with other BLEU.

    Args:
        translation: Words separated by spaces; case and punctuation count.
        reference: The same.
        max_order: Words of the longest n-grams, k; at least 1.

    Returns:
        From 0 to 1; 1 for equal sentences, 0 for an empty translation of a sentence.
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
    """A translation and its reference.

    Attributes:
        source: The sentence.
        reference: Its reference translation.
        translation: Its translation.
        bleu: `sentence_bleu`, from 0 to 1.
    """

    source: str
    reference: str
    translation: str
    bleu: float

    def __str__(self) -> str:
        return f"{self.source} → {self.translation}  {self.bleu:.3f}"


def score_sentences(
    text: EvaluationText, translations: Sequence[str], max_order: int
) -> tuple[ScoredSentence, ...]:
    """Returns each sentence with its own BLEU (`sentence_bleu`) against its first reference."""
    return tuple(
        ScoredSentence(
            source, reference or "", line, sentence_bleu(line, reference or "", max_order=max_order)
        )
        for source, reference, line in zip(text.sources, text.references[0], translations, strict=True)
    )


def _precision(words: Sequence[str], expected: Sequence[str], order: int) -> float:
    found = _ngrams(words, order)
    return (found & _ngrams(expected, order)).total() / found.total()


def _ngrams(words: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + order]) for i in range(len(words) - order + 1))
