"""A modest client alone, and then beside a greedy one. Importing this changes sockets, as locust does."""

import json
import os
import sys
from collections.abc import Mapping, Sequence

from gevent import sleep, spawn
from gevent.subprocess import PIPE, Popen
from locust import constant, task

from tests.load.objectives import Level, Measured
from tests.load.people import Person
from tests.load.target import PATH, Target, keys_of
from tests.load.texts import sentence_requests

ALONE, BESIDE = "modest, alone", "modest, beside a greedy one"
GREEDY_CONNECTIONS = 60
_MOST_TIMES_SLOWER = 2.0
_SECONDS = float(os.environ.get("LOAD_SECONDS") or 30)
_SETTLING_SECONDS = 0.5


class Modest(Person):
    """One client with one request at a time; half of its time it shares the service."""

    fixed_count = 1
    wait_time = constant(0)
    _is_beside = False
    _is_counted = True

    def on_start(self) -> None:
        """Expect company."""
        target = Target.of(self.host or "", self._keys())
        self._greedy = target.clients(2)[1]
        spawn(self._share, target)

    @task
    def one_sentence(self) -> None:
        """The same sentences alone and in company."""
        kind = BESIDE if self._is_beside else ALONE
        self.sentence(kind if self._is_counted else "between")

    @staticmethod
    def _keys() -> list[str]:
        return keys_of(os.environ.get("LOAD_API_KEYS", ""))

    def _share(self, target: Target) -> None:
        """Begin alone; then a process that asks as much as it can."""
        sleep(_SECONDS / 2)
        self._is_counted = False
        seconds = _SECONDS / 2 - 3 * _SETTLING_SECONDS
        generator = Popen([sys.executable, "-m", "benchmarks.load"], stdin=PIPE, stdout=PIPE)
        job = self._job(target, seconds)
        reading = spawn(generator.communicate, json.dumps(job).encode() + b"\n")
        sleep(_SETTLING_SECONDS)
        self._is_beside = self._is_counted = True
        reading.join()
        self._is_counted = False

    def _job(self, target: Target, seconds: float) -> dict[str, object]:
        return {
            "host": target.host,
            "port": target.port,
            "path": PATH,
            "headers": self._greedy.headers,
            "source": self._greedy.address,
            "bodies": sentence_requests(),
            "concurrency": GREEDY_CONNECTIONS,
            "seconds": seconds,
            "warm_up_seconds": 0.0,
            "most": None,
        }


def fairness_levels(measured: Mapping[str, Measured]) -> Sequence[Level]:
    """How much slower the modest one became."""
    alone, beside = (_p99(measured.get(kind)) for kind in (ALONE, BESIDE))
    times = beside / alone if alone else float("nan")
    return [
        Level(
            objective=f"p99 {BESIDE}, in times of {alone:.0f} ms alone",
            measured=times,
            limit=_MOST_TIMES_SLOWER,
        )
    ]


def _p99(measured: Measured | None) -> float:
    return measured.latency_ms(0.99) if measured is not None and measured.requests else float("nan")
