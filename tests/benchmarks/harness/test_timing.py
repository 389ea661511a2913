"""Taking turns, and comparing within a round."""

import math

from benchmarks.harness.timing import (
    Duration,
    Ratio,
    median,
    median_seconds,
    percentile,
    speed_ratio,
    take_turns,
)

OURS = [Duration(1, 0.5), Duration(2, 0.5), Duration(1, 0.5)]
THEIRS = [Duration(2, 2), Duration(6, 1), Duration(1, 0.5)]


def test_every_round_begins_with_another_participant() -> None:
    order: list[str] = []

    def note(name: str) -> Duration:
        order.append(name)
        return Duration(len(order), 0)

    runs = {name: lambda current, name=name: note(f"{name}{current}") for name in "abc"}
    timings = take_turns(runs, rounds=3)
    assert order == ["a0", "b0", "c0", "b1", "c1", "a1", "c2", "a2", "b2"]
    assert [[each.wall for each in timings[name]] for name in "abc"] == [[1, 6, 8], [2, 4, 9], [3, 5, 7]]


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    assert speed_ratio(OURS, THEIRS, "wall") == Ratio(2, 1, 3)
    assert speed_ratio(OURS, THEIRS, "processor") == Ratio(2, 1, 4)
    assert str(Ratio(2, 1, 3)) == "2.00 (1.00–3.00)"


def test_a_middling_round_stands_for_all() -> None:
    assert median_seconds(THEIRS, "wall") == 2


def test_percentiles_are_values_that_were_seen() -> None:
    assert [percentile([1, 2, 3, 4], share) for share in (0, 0.5, 0.99)] == [1, 3, 4]


def test_nothing_has_no_percentile() -> None:
    assert math.isnan(percentile([], 0.5))
    assert math.isnan(median([]))
