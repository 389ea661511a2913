"""The clock on the wall jumps by an hour back or a day ahead: no deadline, rate or duration changes.

Python's own clock is moved everywhere; that of the whole process where libfaketime is installed.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.app.remote import Live, running

MOVED = """
import runpy, time
from pathlib import Path
real, file = time.time, Path({file!r})
time.time = lambda: real() + float(file.read_text())
time.time_ns = lambda: int(time.time() * 1e9)
runpy.run_module("tests.app.live", run_name="__main__")
"""
# libfaketime does not know how Python sleeps.
SLEEPING = """
import runpy, select, time
time.sleep = lambda seconds: select.select([], [], [], seconds)
runpy.run_module("tests.app.live", run_name="__main__")
"""
LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
HOUR_BACK, DAY_AHEAD = -3600, 86_400
STEP_SECONDS = 0.1


class Wall:
    """The clock of a running service."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.move(0)

    def move(self, seconds: int) -> None:
        # Replaced, because a reader must not find the file empty.
        unfinished = self.file.with_suffix(".new")
        unfinished.write_text(f"{seconds:+d}")
        unfinished.replace(self.file)


@contextmanager
def serving(wall: Wall, library: Path | None, **variables: str) -> Iterator[Live]:
    variables |= {"DOUBLE_SECONDS": str(STEP_SECONDS), "DRAGOMAN_RATE_LIMIT": "6/minute"}
    if library is None:
        with running(command=("-c", MOVED.format(file=str(wall.file))), **variables) as live:
            yield live
    else:
        variables |= {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(wall.file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        with running(command=("-c", SLEEPING), **variables) as live:
            yield live


def ask(live: Live, words: int, **fields: object) -> int:
    return live.translate(" ".join("abcdefghi"[:words]), **fields)[0]  # a step for each word


def ask_and_move(live: Live, wall: Wall, seconds: int, **fields: object) -> int:
    """A request of eight steps, in the middle of which the clock jumps; its status."""
    move = threading.Timer(3 * STEP_SECONDS, wall.move, (seconds,))
    move.start()
    status = ask(live, 7, **fields)
    move.join()
    return status


@pytest.mark.parametrize(
    "library", [None, *LIBRARIES], ids=lambda library: "process" if library else "python"
)
def test_it_changes_no_deadline_rate_or_duration(tmp_path: Path, library: Path | None) -> None:
    wall = Wall(tmp_path / "clock")
    with serving(wall, library) as live:
        kept = HTTPConnection("127.0.0.1", live.port, timeout=10)
        for jump in (DAY_AHEAD, HOUR_BACK):
            assert ask_and_move(live, wall, jump, timeout_ms=20_000) == 200
            kept.request("GET", "/livez")  # neither jump makes it look idle for long
            assert kept.getresponse().read()
        kept.close()
        # An hour back: a deadline by that clock would not pass before it.
        assert ask_and_move(live, wall, HOUR_BACK - 3600, timeout_ms=int(5_000 * STEP_SECONDS)) == 504
        statuses = [ask(live, 1) for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        wall.move(DAY_AHEAD)
        assert ask(live, 1) == 429
        exposition = live.get("metrics")
    sums = dict(re.findall(r"^dragoman_(\w+_seconds_sum)\S* (\S+)$", exposition, re.MULTILINE))
    assert {"request_duration_seconds_sum", "queue_wait_seconds_sum"} <= sums.keys()
    assert all(0 <= float(value) < 300 for value in sums.values())
