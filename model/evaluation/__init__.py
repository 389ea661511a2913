"""Evaluation of translations: BLEU, chrF, confidence intervals, and tuning of the search.

`scores` has texts with references, and computes scores with their signatures, `systems` reports what a
checkpoint or a file of translations scores, and `tuning` tries searches on held-out text. The validation of
a training run is in `model.training`.
"""

from collections.abc import Mapping
from typing import Literal

Metric = Literal["bleu", "chrf"]
METRIC_NAMES: Mapping[Metric, str] = {"bleu": "BLEU", "chrf": "chrF"}
