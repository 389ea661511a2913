"""How good translations are: BLEU, chrF, their significance, and the search that suits a checkpoint best."""

from collections.abc import Mapping
from typing import Literal

Metric = Literal["bleu", "chrf"]
METRIC_NAMES: Mapping[Metric, str] = {"bleu": "BLEU", "chrf": "chrF"}
