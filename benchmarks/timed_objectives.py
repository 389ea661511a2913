"""Objectives of the service in seconds; each is measured several times, and met if every run meets it.

    python -m benchmarks.timed_objectives --output docs/results

Each run starts services of its own with the embedded checkpoint. Exit status 1 if an objective was missed.
"""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from benchmarks.harness.options import FOLDER, benchmark, counted
from benchmarks.harness.report import Report, Row
from benchmarks.harness.timing import percentile
from benchmarks.load.generator import Client, Load, run_apart
from benchmarks.load.objectives import Level, are_met
from benchmarks.load.texts import sentence_requests
from benchmarks.services import Service, dragoman_service

_CHECKPOINT: Final = Path("checkpoints/everyday")
_HALF_A_HEAD: Final = b"POST /translate HTTP/1.1\r\nHost: x\r\n"
_SLOW_HEAD: Final = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
_LONG_TEXT: Final = "The quick brown fox jumps over the lazy dog because nobody else wanted to. " * 20
_LONGEST_WAIT: Final = 60.0
_PROBE_MS: Final = {"/livez": 100.0, "/readyz": 100.0, "/metrics": 1000.0}
# Gives a thousand probes of each path: of two hundred, p99 is the third slowest, and differs by half from
# run to run.
_PROBE_PAUSE_SECONDS: Final = 0.01

Objective = Callable[[], Iterator[Level]]


def _service() -> Service:
    return Service(dragoman_service(_CHECKPOINT, workers=2, precision="int8"))


def _overload() -> Iterator[Level]:
    """Ten times the capacity; probes and scrapes go on meanwhile."""
    with _service() as service, _probed(service) as waits:
        levels = _load(service, "overload", seconds=20)
    yield from levels
    for path, limit in _PROBE_MS.items():
        measured = 1e3 * percentile(sorted(waits[path]), 0.99)
        yield Level(objective=f"{path} under overload: p99", measured=measured, limit=limit, unit="ms")


@contextmanager
def _probed(service: Service) -> Iterator[Mapping[str, Sequence[float]]]:
    """Ask for each probe from a thread of its own, each time on a new connection; yields seconds by path."""
    waits: dict[str, list[float]] = {path: [] for path in _PROBE_MS}
    is_over = threading.Event()

    def probe(path: str) -> None:
        while not is_over.wait(_PROBE_PAUSE_SECONDS):
            began = time.monotonic()
            is_answered = service.ask(path) > 0
            waits[path].append(time.monotonic() - began if is_answered else _LONGEST_WAIT)

    with ThreadPoolExecutor() as threads:
        probes = [threads.submit(probe, path) for path in waits]
        try:
            yield waits
        finally:
            is_over.set()
    for each in probes:
        each.result()  # A probe that failed measured nothing from then on.


def _fairness() -> Iterator[Level]:
    """A modest client beside a greedy one."""
    with _service() as service:
        yield from _load(service, "fairness", seconds=30)


def _load(service: Service, scenario: str, *, seconds: int) -> list[Level]:
    """Put a service under a load of `benchmarks.load`."""
    with TemporaryDirectory() as folder:
        options = {"scenario": scenario, "url": service.url, "seconds": seconds, "output": folder}
        command = [sys.executable, "-m", "benchmarks.load", *(f"--{k}={v}" for k, v in options.items())]
        # Its exit status says whether all objectives were met, as the results do.
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        results = json.loads((Path(folder) / f"load-{scenario}.json").read_text(encoding="utf-8"))["results"]
    for result in results:
        del result["is_met"]
    return [Level(**result) for result in results]


def _second_signal() -> Iterator[Level]:
    """SIGTERM drains; a second one ends the process without waiting for long texts."""
    with _service() as service, closing(_connect(service)) as client:
        body = json.dumps({"q": [_LONG_TEXT] * 40, "source": "en", "target": "fr"})
        client.sendall(Client(port=service.port).message(body))
        time.sleep(0.5)
        service.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        is_draining = service.process.poll() is None
        began = time.monotonic()
        service.process.send_signal(signal.SIGTERM)
        service.process.wait(_LONGEST_WAIT)
        seconds = time.monotonic() - began
    yield Level(
        objective="second SIGTERM: until the end",
        measured=seconds if is_draining else float("nan"),
        limit=2,
        unit="s",
    )


def _descriptors() -> Iterator[Level]:
    """More connections than descriptors."""
    with _service() as service, ExitStack() as crowd:
        pid, limit = service.process.pid, resource.RLIMIT_NOFILE
        held = len(os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, limit, (held + 8, resource.prlimit(pid, limit)[1]))
        for _ in range(100):
            crowd.enter_context(closing(_connect(service))).sendall(_HALF_A_HEAD)
        time.sleep(0.5)
        before = service.processor_seconds()
        time.sleep(2)
        share = (service.processor_seconds() - before) / 2
        crowd.close()
        body, began = sentence_requests()[0], time.monotonic()
        while service.ask("/translate", body) != 200 and time.monotonic() - began < _LONGEST_WAIT:
            time.sleep(0.01)
        seconds = time.monotonic() - began
    yield Level(
        objective="without descriptors: processor time", measured=100 * share, limit=10, unit="% of a core"
    )
    yield Level(objective="descriptors again: until the first answer", measured=seconds, limit=1, unit="s")


def _slow_senders() -> Iterator[Level]:
    """Clients that send a byte a second are closed; others do not notice them."""
    with _service() as service, ExitStack() as crowd:
        alone = _p99(service)
        slow = [crowd.enter_context(closing(_connect(service))) for _ in range(50)]
        began = time.monotonic()
        for connection in slow:
            connection.sendall(_SLOW_HEAD)
        beside = _p99(service)
        closed = []
        while slow and time.monotonic() - began < _LONGEST_WAIT:
            slow = [each for each in slow if not _is_closed(each)]
            closed.append(time.monotonic() - began)
            time.sleep(0.2)
        longest = closed[-1] if closed and not slow else float("nan")
    yield Level(objective="slow senders: until all are closed", measured=longest, limit=10, unit="s")
    yield Level(objective="p99 beside slow senders, in times of alone", measured=beside / alone, limit=2)


OBJECTIVES: Final[Mapping[str, Objective]] = {
    "overload": _overload,
    "fairness": _fairness,
    "second-signal": _second_signal,
    "descriptors": _descriptors,
    "slow-senders": _slow_senders,
}
"""What is measured, by the name that `--only` takes."""


def _connect(service: Service) -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.port), timeout=_LONGEST_WAIT)


def _p99(service: Service) -> float:
    """Seconds of the slowest hundredth of the requests of four connections."""
    load = Load(client=Client(port=service.port), bodies=sentence_requests(), connections=4, seconds=5.0)
    return percentile(sorted(each.seconds for each in run_apart(load).samples), 0.99)


def _is_closed(connection: socket.socket) -> bool:
    """Whether the other end has closed; sends one more byte if not."""
    connection.settimeout(0)
    try:
        while received := connection.recv(4096):
            del received
        return True
    except BlockingIOError:
        connection.sendall(b"a")
        return False
    except OSError:
        return True


def _rows(runs: Sequence[Sequence[Level]]) -> Iterator[Row]:
    """One row an objective, with what each run measured."""
    for levels in zip(*runs, strict=True):
        rows = [level.row() for level in levels]
        yield {
            "objective": rows[0]["objective"],
            "must be": rows[0]["must be"],
            **{f"run {number}": row["measured"] for number, row in enumerate(rows, 1)},
            "verdict": "met" if are_met(levels) else "MISSED",
        }


@benchmark
@counted("runs", 3, "How often each objective is measured.")
@click.option("--only", multiple=True, type=click.Choice(list(OBJECTIVES)), help="Measure these alone.")
@click.option("--output", type=FOLDER, help="Folder for the report.")
def main(runs: int, only: Sequence[str], output: Path | None) -> None:
    """Measure the service's objectives in seconds on a machine that does nothing else."""
    report = Report("objectives", {"runs": runs}, [2])
    report.notes.append("Service and generator share the machine. An objective is met if every run meets it.")
    chosen = only or list(OBJECTIVES)
    measured = [[level for name in chosen for level in OBJECTIVES[name]()] for _ in range(runs)]
    report.add("Objectives", list(_rows(measured)))
    report.deliver(output)
    if not all(map(are_met, measured)):
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    main()
