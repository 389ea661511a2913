"""What a process takes, over time."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Moment(NamedTuple):
    """A process at one time.

    Attributes:
        seconds: Since the beginning.
        resident: Bytes of memory.
        descriptors: Open files and sockets.
        threads: Of the process.
    """

    seconds: float
    resident: int
    descriptors: int
    threads: int


def look_at(process: int, seconds: float) -> Moment:
    """A process of Linux as it is now.

    Args:
        process: Its number.
        seconds: Since the beginning.
    """
    folder = Path(f"/proc/{process}")
    lines = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    return Moment(
        seconds=seconds,
        resident=int(lines["VmRSS"].split()[0]) * 1024,
        descriptors=len(list((folder / "fd").iterdir())),
        threads=int(lines["Threads"]),
    )


def growth(moments: Sequence[Moment], values: Sequence[float]) -> float:
    """How much a value grew from the first moment to the last, by the straight line nearest to all.

    Args:
        moments: At least two, at different times.
        values: One for each.
    """
    seconds = [moment.seconds for moment in moments]
    return statistics.linear_regression(seconds, values).slope * (seconds[-1] - seconds[0])
