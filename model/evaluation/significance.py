"""ⓕ How sure scores are, and whether two systems differ: bootstrap resampling, by sacreBLEU.

A thousand times, as many sentences as there are are drawn from them, with replacement, and scored; how
far these scores spread tells how sure ours is (Koehn 2004, https://aclanthology.org/W04-3250).
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest
from sacrebleu.significance import Result as PairedResult

from model.errors import ConfigError
from model.evaluation import Metric
from model.evaluation.scores import References, bleu_metric

RESAMPLES = 1000
_SEED = "SACREBLEU_SEED"


@dataclass(frozen=True)
class Estimate:
    """A corpus score, 0 to 100, and how sure it is.

    Attributes:
        score: Of the text as it is.
        mean: Of the resampled texts.
        interval: Half the width of the interval that holds 95 % of them.
        p_value: How likely chance alone makes a difference to the baseline as large as the one found; None
            without a baseline.
        signature: How it was computed; names resamples and seed, which SACREBLEU_SEED sets.
    """

    score: float
    mean: float
    interval: float
    p_value: float | None
    signature: str


Estimates = Mapping[Metric, Estimate]


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same text, resampled in pairs.

    Attributes:
        system: The one that is judged; its p-values are those of the difference.
        baseline: The one that it is compared with.
    """

    system: Estimates
    baseline: Estimates


def check_seed() -> None:
    """Refuse what sacreBLEU would not take for a seed, before anything long is done.

    Raises:
        ConfigError: If SACREBLEU_SEED is set, but to no seed.
    """
    seed = os.environ.get(_SEED, "none").lower()
    if seed != "none" and not (seed.isascii() and seed.isdigit()):
        raise ConfigError(_SEED, "a whole number from 0 up, or none for other figures every time", seed)


def bootstrap(
    translations: Sequence[str], references: References, target_language: str, *, resamples: int = RESAMPLES
) -> Estimates:
    """How sure the scores of one system are.

    Args:
        translations: One for each sentence.
        references: See `References`.
        target_language: Decides how BLEU counts words.
        resamples: Texts to draw; time grows with it, and memory by 72 bytes a sentence.
    """
    columns = cast(Sequence[Sequence[str]], references)
    estimates: dict[Metric, Estimate] = {}
    for name, metric in _metrics(target_language).items():
        found = metric.corpus_score(translations, columns, n_bootstrap=resamples)
        signature = str(metric.get_signature())
        estimates[name] = Estimate(found.score, float(found._mean), float(found._ci), None, signature)
    return estimates


def compare(
    translations: Sequence[str],
    baseline: Sequence[str],
    references: References,
    target_language: str,
    *,
    resamples: int = RESAMPLES,
) -> Comparison:
    """Whether a system differs from a baseline by more than chance; arguments as for `bootstrap`.

    Where there is no difference at all, chance makes one as large for certain: the p-value is 1. Of the
    same translations twice, sacreBLEU's formula gives the smallest one.
    """
    metrics = _metrics(target_language)
    test = PairedTest(
        [("baseline", baseline), ("system", translations)],
        cast(Mapping[str, SacreMetric], metrics),
        cast(Sequence[Sequence[str]], references),
        test_type="bs",
        n_samples=resamples,
    )
    if test._seed == 0:  # which sacreBLEU takes for none; the same seed, spelled otherwise, it takes
        test._seed = np.random.SeedSequence(0)  # type: ignore[assignment]
    signatures, found = test()
    systems: dict[Metric, Estimate] = {}
    baselines: dict[Metric, Estimate] = {}
    for name, column in zip(metrics, signatures, strict=True):
        signature = str(signatures[column])
        before, after = cast(Sequence[PairedResult], found[column])
        baselines[name] = _estimate(before, None, signature)
        systems[name] = _estimate(after, 1.0 if after.score == before.score else after.p_value, signature)
    return Comparison(systems, baselines)


def _metrics(target_language: str) -> dict[Metric, SacreMetric]:
    return {"bleu": bleu_metric(target_language), "chrf": CHRF()}


def _estimate(result: PairedResult, p_value: float | None, signature: str) -> Estimate:
    mean, interval = float(result.mean or 0.0), float(result.ci or 0.0)
    return Estimate(float(result.score), mean, interval, p_value, signature)
