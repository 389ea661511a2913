"""Fair timing: participants take turns, round after round, and are compared within a round.

A shared machine is never equally busy for a whole run. How two participants did side by side holds, so the
figures are medians of the rounds' ratios, with the lowest and the highest.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

Clock = Literal["wall", "processor"]
Name = TypeVar("Name")


@dataclass(frozen=True)
class Duration:
    """Seconds that passed, and seconds of computing in all threads, which a busy machine stretches less."""

    wall: float
    processor: float

    def by(self, clock: Clock) -> float:
        """Seconds by one of the two clocks."""
        return self.wall if clock == "wall" else self.processor


@dataclass(frozen=True)
class Ratio:
    """A ratio of two participants: its median over the rounds, the lowest and the highest."""

    median: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.lowest:.2f}–{self.highest:.2f})"


def take_turns(runs: Mapping[Name, Callable[[int], Duration]], rounds: int) -> dict[Name, list[Duration]]:
    """Run every participant once a round; each round begins with another participant.

    Args:
        runs: By name; each is called with the number of the round, from 0.
        rounds: At least 1.
    """
    names = list(runs)
    timings: dict[Name, list[Duration]] = {name: [] for name in names}
    for current in range(rounds):
        first = current % len(names)
        for name in names[first:] + names[:first]:
            timings[name].append(runs[name](current))
    return timings


def timed(run: Callable[[], object]) -> Duration:
    """How long one call takes."""
    wall, processor = time.perf_counter(), time.process_time()
    run()
    return Duration(time.perf_counter() - wall, time.process_time() - processor)


def speed_ratio(subject: Sequence[Duration], baseline: Sequence[Duration], clock: Clock) -> Ratio:
    """How many times as fast the subject is as the baseline, round by round; above 1 it is faster."""
    pairs = zip(subject, baseline, strict=True)
    return ratio_of([theirs.by(clock) / ours.by(clock) for ours, theirs in pairs])


def ratio_of(ratios: Sequence[float]) -> Ratio:
    """The rounds' ratios as one."""
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


def median_seconds(durations: Sequence[Duration], clock: Clock) -> float:
    """The median round's duration."""
    return statistics.median(duration.by(clock) for duration in durations)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of sorted values lies; NaN of no values."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def median(values: Sequence[float]) -> float:
    """The median; NaN of no values."""
    return statistics.median(values) if values else float("nan")
