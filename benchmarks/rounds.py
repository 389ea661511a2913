"""Fair timing: contestants take turns, round after round, and are compared within a round.

A shared machine is never equally busy for a whole run. What holds is how two contestants did side
by side, so the figures are medians of the rounds' ratios, with their spread.
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
    """How long a run took.

    Attributes:
        wall: Seconds that passed.
        processor: Seconds of computing, all threads together; a busy machine stretches them less.
    """

    wall: float
    processor: float

    def by(self, clock: Clock) -> float:
        """Seconds by one of the two clocks."""
        return self.wall if clock == "wall" else self.processor


@dataclass(frozen=True)
class Ratio:
    """How many times as fast one contestant was as another, over all rounds.

    Attributes:
        median: Half of the rounds were below, half above.
        lowest: Of all rounds.
        highest: Of all rounds.
    """

    median: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.lowest:.2f}–{self.highest:.2f})"


def take_turns(
    contestants: Mapping[Name, Callable[[int], Duration]], rounds: int
) -> dict[Name, list[Duration]]:
    """Run every contestant once a round; each round begins with another one.

    Args:
        contestants: By name; each is called with the number of the round, counted from 0, and says how
            long it took.
        rounds: At least 1.

    Returns:
        A duration a round for each.
    """
    names = list(contestants)
    timings: dict[Name, list[Duration]] = {name: [] for name in names}
    for current in range(rounds):
        first = current % len(names)
        for name in names[first:] + names[:first]:
            timings[name].append(contestants[name](current))
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
    """The rounds' ratios as one, with their spread."""
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


def median_seconds(durations: Sequence[Duration], clock: Clock) -> float:
    """The duration of a middling round."""
    return statistics.median(duration.by(clock) for duration in durations)
