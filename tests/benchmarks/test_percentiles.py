"""What many measured values come to."""

import math

from benchmarks.percentiles import median, percentile


def test_percentiles_are_values_that_were_seen() -> None:
    assert [percentile([1, 2, 3, 4], share) for share in (0, 0.5, 0.99)] == [1, 3, 4]


def test_nothing_has_no_percentile() -> None:
    assert math.isnan(percentile([], 0.5))
    assert math.isnan(median([]))
