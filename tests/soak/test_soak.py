"""A real process under mixed traffic for a long time: nothing grows, nothing breaks, nothing is lost.

SOAK_SECONDS says how long: ten minutes by default, 3600 for the hour.
"""

import hashlib
import json
import math
import os
import shutil
import signal
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from benchmarks.harness.report import markdown_table
from benchmarks.load.objectives import Level, are_met
from benchmarks.load.target import Accounts, scrape
from tests.app.remote import REAL, Live, running
from tests.embedded import EMBEDDED, NAME
from tests.soak.actors import Diary, Visitor, over_and_over

SECONDS = float(os.environ.get("SOAK_SECONDS") or 600)
# Arenas, pools and caches fill at first, and with the first change of checkpoints.
WARM_UP_SECONDS = min(120.0, SECONDS / 3)
RELOAD_SECONDS = 15.0
LOOK_SECONDS = 1.0
MOST_MEBIBYTES, MOST_DESCRIPTORS = 32.0, 4.0


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
    """A process of Linux as it is now, so many seconds after the beginning."""
    folder = Path(f"/proc/{process}")
    lines = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    return Moment(
        seconds=seconds,
        resident=int(lines["VmRSS"].split()[0]) * 1024,
        descriptors=len(list((folder / "fd").iterdir())),
        threads=int(lines["Threads"]),
    )


def growth(moments: Sequence[Moment], values: Sequence[float]) -> float:
    """How much a value grew from the first moment to the last, by the straight line nearest to all."""
    seconds = [moment.seconds for moment in moments]
    return statistics.linear_regression(seconds, values).slope * (seconds[-1] - seconds[0])


def give_version(folder: Path, version: str) -> None:
    """Change a checkpoint's version, and what vouches for its files."""
    config = json.loads((folder / "config.json").read_text())
    config["card"]["version"] = version
    content = json.dumps(config).encode()
    provenance = json.loads((folder / "provenance.json").read_text())
    provenance["files"]["config.json"] = {
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
    }
    _write(folder / "config.json", content)
    _write(folder / "provenance.json", json.dumps(provenance).encode())


def _write(path: Path, content: bytes) -> None:
    """Replace a file at once: a reader finds the old content or the new one."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    os.replace(new, path)


@pytest.mark.soak
def test_nothing_grows_and_nothing_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    shutil.copytree(EMBEDDED, folder)  # a copy that no other service uses
    with running(command=REAL, DRAGOMAN_CHECKPOINT=str(folder), DRAGOMAN_WATCH_SECONDS="0") as live:
        diary = Diary()
        with _visited(live, folder, diary):
            moments = list(_watched(live))
        levels = _levels(live, diary, moments)
    table = markdown_table([level.row() for level in levels])
    _report(f"```json\n{_summary(diary, moments)}\n```\n\n{table}")
    assert diary.faults[:5] == []
    assert are_met(levels)


@contextmanager
def _visited(live: Live, folder: Path, diary: Diary) -> Iterator[None]:
    """Everybody comes, and has gone at the end."""
    is_over = threading.Event()
    numbers, versions = count(), count(2)

    def visitor() -> Visitor:
        return Visitor(port=live.port, diary=diary, draw=Random(next(numbers)))

    def reload() -> None:
        give_version(folder, str(next(versions)))
        live.process.send_signal(signal.SIGHUP)

    acts = [
        *((visitor().translate, 0.02) for _ in range(3)),
        (visitor().watch, 0.2),
        *((visitor().leave, 0.1) for _ in range(2)),
        (visitor().offend, 0.1),
        (reload, RELOAD_SECONDS),
    ]
    threads = [
        threading.Thread(target=over_and_over, args=(act, diary, pause, is_over)) for act, pause in acts
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def _watched(live: Live) -> Iterator[Moment]:
    """The process, again and again, after the warm-up."""
    began = time.monotonic()
    while (seconds := time.monotonic() - began) < SECONDS:
        if seconds >= WARM_UP_SECONDS:
            yield look_at(live.process.pid, seconds)
        assert Accounts.of(live.url).unaccounted == 0
        time.sleep(LOOK_SECONDS)


def _levels(live: Live, diary: Diary, moments: Sequence[Moment]) -> list[Level]:
    accounts, series = Accounts.settled(live.url), scrape(live.url)
    ours = sum(number for status, number in diary.statuses.items() if status < 400)
    refused = sum(number for status, number in diary.statuses.items() if 400 <= status < 500)
    memory = growth(moments, [moment.resident for moment in moments]) / 2**20
    descriptors = growth(moments, [moment.descriptors for moment in moments])
    faults = sum(number for status, number in diary.statuses.items() if status >= 500)
    reloads = series['dragoman_reloads_total{outcome="replaced"}']
    return [
        Level(objective="memory grew by", measured=memory, limit=MOST_MEBIBYTES, unit="MiB"),
        Level(objective="open descriptors grew by", measured=descriptors, limit=MOST_DESCRIPTORS),
        Level(objective="answers with 5xx", measured=faults, limit=0),
        Level(objective="wrong or lost answers", measured=len(diary.faults), limit=0),
        Level(objective="good answers", measured=ours, limit=1, is_floor=True),
        Level(objective="checkpoints replaced", measured=reloads, limit=1, is_floor=True),
        Level(objective="requests that are unaccounted for", measured=accounts.unaccounted, limit=0),
        Level(
            objective="answers that were not counted", measured=max(0.0, ours - accounts.answered), limit=0
        ),
        Level(
            objective="refusals that were not counted", measured=max(0.0, refused - accounts.refused), limit=0
        ),
        Level(objective="clients that left, noticed", measured=accounts.abandoned, limit=1, is_floor=True),
        Level(objective="requests left in flight", measured=accounts.in_flight - 1, limit=0),
        *(
            Level(objective=name, measured=series[f"dragoman_{name}"], limit=0)
            for name in ("queue_depth", "queued_tokens")
        ),
    ]


def _report(text: str) -> None:
    """Show it, and leave it in the folder that SOAK_OUTPUT names."""
    sys.stdout.write(f"\n{text}")
    if output := os.environ.get("SOAK_OUTPUT"):
        Path(output).mkdir(parents=True, exist_ok=True)
        (Path(output) / "soak.md").write_text(f"## soak\n\n{text}")


def _summary(diary: Diary, moments: Sequence[Moment]) -> str:
    first, last = moments[0], moments[-1]
    return json.dumps(
        {
            "seconds": math.ceil(last.seconds),
            "statuses": dict(sorted(diary.statuses.items())),
            "MiB": [round(moment.resident / 2**20) for moment in moments[:: max(1, len(moments) // 12)]],
            "descriptors": [first.descriptors, last.descriptors],
            "threads": [first.threads, last.threads],
        }
    )


def moments(*resident: int) -> list[Moment]:
    return [Moment(10.0 * number, value, 5, 1) for number, value in enumerate(resident)]


def test_growth_is_that_of_the_line_and_not_of_the_ends() -> None:
    assert growth(moments(100, 110, 120, 130), [100, 110, 120, 130]) == pytest.approx(30)
    assert growth(moments(0, 0, 0), [5, 5, 5]) == 0
    restless = [100, 130, 100, 130, 100, 130, 100, 130, 100]
    assert growth(moments(*restless), restless) == pytest.approx(0)
