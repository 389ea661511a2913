"""④ → ⑤ What an engine is given after it ran out of memory; pure policy, the clock is an argument."""

import math
from collections.abc import Collection, Iterable
from typing import Final

from app.scheduling.backlog import Job

SECONDS: Final = 30.0


class Ceiling:
    """For half a minute an engine gets at most half of what it had when it ran out of memory.

    Else it would run out again as soon as it was full again, and all its sentences would start anew each
    time. One sentence alone is always worth a try.
    """

    def __init__(self) -> None:
        self._most = math.inf
        self._until = -math.inf

    def lower(self, jobs: Iterable[Job], now: float) -> None:
        """An engine with these sentences found no memory.

        Args:
            jobs: All that it had.
            now: Seconds of the monotonic clock.
        """
        self._most = load_of(jobs) / 2
        self._until = now + SECONDS

    def permits(self, jobs: Collection[Job], cost: int, now: float) -> bool:
        """Whether a sentence may join those that an engine has.

        Args:
            jobs: Those.
            cost: Of the sentence.
            now: Seconds of the monotonic clock.
        """
        return not jobs or now >= self._until or load_of(jobs) + cost <= self._most


def load_of(jobs: Iterable[Job]) -> int:
    """What sentences cost together."""
    return sum(job.cost for job in jobs)
