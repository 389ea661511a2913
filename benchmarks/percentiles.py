"""What many measured values come to."""

import statistics
from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """Of sorted values, the one that so many are below; not a number if there is none."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def median(values: Sequence[float]) -> float:
    """Of the rounds' values; not a number if there is none."""
    return statistics.median(values) if values else float("nan")
