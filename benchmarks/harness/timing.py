"""Fair timing: participants take turns, round after round, and are compared within a round.

A shared machine is never equally busy for a whole run. How two participants did side by side holds, so the
figures are medians of the rounds' ratios, with the lowest and the highest.
"""

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Name = TypeVar("Name")


@dataclass(frozen=True)
class Ratio:
    """A ratio of two participants: its median over the rounds, the lowest and the highest."""

    median: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.lowest:.2f}–{self.highest:.2f})"


def take_turns(runs: Mapping[Name, Callable[[int], float]], rounds: int) -> dict[Name, list[float]]:
    """Run every participant once a round; each round begins with another participant.

    Args:
        runs: By name; each is called with the number of the round, from 0, and returns its seconds.
        rounds: At least 1.
    """
    names = list(runs)
    timings: dict[Name, list[float]] = {name: [] for name in names}
    for current in range(rounds):
        first = current % len(names)
        for name in names[first:] + names[:first]:
            timings[name].append(runs[name](current))
    return timings


def pin(threads: int) -> None:
    """Keep this process on that many cores, the last ones, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])


def speed_ratio(subject: Sequence[float], baseline: Sequence[float]) -> Ratio:
    """Returns the speed of the subject over that of the baseline, from the seconds of each round."""
    return ratio_of([theirs / ours for ours, theirs in zip(subject, baseline, strict=True)])


def ratio_of(ratios: Sequence[float]) -> Ratio:
    """The rounds' ratios as one."""
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of sorted values lies; NaN of no values."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def median(values: Sequence[float]) -> float:
    """The median; NaN of no values."""
    return statistics.median(values) if values else float("nan")
