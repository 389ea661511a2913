"""Evaluation of translations: BLEU, chrF, confidence intervals, and tuning of the search.

The validation of a training run, which chooses its best checkpoint, is in `model.training`.
"""

from collections.abc import Mapping
from typing import Literal

Metric = Literal["bleu", "chrf"]
METRIC_NAMES: Mapping[Metric, str] = {"bleu": "BLEU", "chrf": "chrF"}
