"""ⓕ Confidence intervals of scores, and whether two systems differ: bootstrap resampling by sacreBLEU.

As many sentences as the text has are drawn from it with replacement, 1000 times, and each draw is scored; the
spread of these scores shows how certain the score is (Koehn 2004, https://aclanthology.org/W04-3250).
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, Result

from model.errors import ConfigError
from model.evaluation import Metric
from model.evaluation.scores import bleu_metric
from model.evaluation.text import References

RESAMPLES = 1000
_SEED = "SACREBLEU_SEED"


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
