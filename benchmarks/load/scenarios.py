"""Simulated clients in each scenario, and what they were promised.

Importing this module replaces Python's sockets, as locust does. Times are meant for two CPU cores that do
nothing else; LOAD_SCALE multiplies them.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from random import Random

from gevent import sleep, spawn
from gevent.subprocess import PIPE, Popen
from locust import FastHttpUser, between, constant, constant_pacing, task

from benchmarks.load.generator import COMMAND, REFUSALS, ClosedLoop
from benchmarks.load.objectives import REFUSED, Objectives
from benchmarks.load.target import Target, keys_of
from benchmarks.load.texts import DIRECTIONS, TEXTS, document, fault, longest_document, sentence_requests

SCALE = float(os.environ.get("LOAD_SCALE") or 1)
ALONE, BESIDE, _BETWEEN = "modest, alone", "modest, beside a greedy one", "modest, between"
_SECONDS = float(os.environ.get("LOAD_SECONDS") or 30)
_KEYS = keys_of(os.environ.get("LOAD_API_KEYS", ""))
_BURST_SECONDS = 10
_MOST_CHARACTERS = 10_000
_GREEDY_CONNECTIONS = 60
_SETTLING_SECONDS = 0.5
_SECONDS_A_ROUND = 10

_MIXTURE = {
    "one sentence": {0.95: 1500},
    "list": {0.95: 5000},
    "mixed lengths": {0.95: 4000},
    "document": {0.95: 6000},
}
_STEADY = {"one sentence": {0.5: 200, 0.95: 500, 0.99: 1000}}
_BURST = {"in a burst": {0.5: 5000, 0.99: 10_000}}
_LENGTHS = {"short": {0.5: 2000, 0.99: 5000}, "long": {0.99: 20_000}}
_BATCHES = {"batch": {0.5: 10_000, 0.99: 20_000}}


class User(FastHttpUser):
    """A client that sends requests and checks the answers; its subclasses say which, and how often."""

    abstract = True
    connection_timeout = 60.0
    network_timeout = 60.0
    wait_time = constant(0)
    default_headers = {"Authorization": f"Bearer {_KEYS[0]}"} if _KEYS else {}
    draw = Random(1)

    def sentence(self, kind: str) -> None:
        """Have one sentence translated."""
        source, target = self.draw.choice(DIRECTIONS)
        self.translate(kind, self.draw.choice(TEXTS[source]), source, target)

    def sentences(self, kind: str, least: int, most: int) -> None:
        """Have a list of sentences translated."""
        source, target = self.draw.choice(DIRECTIONS)
        count = self.draw.randint(least, most)
        self.translate(kind, self.draw.choices(TEXTS[source], k=count), source, target)

    def translate(self, kind: str, text: str | Sequence[str], source: str, target: str) -> None:
        """Send a request, and record it under its kind, or as refused; a fault is a failure."""
        body = {"q": text, "source": source, "target": target}
        with self.client.post("/translate", json=body, name=kind, catch_response=True) as response:
            if response.status_code in REFUSALS and "Retry-After" in response.headers:
                response.request_meta["name"] = REFUSED
                response.success()
            elif response.status_code != 200:
                response.failure(f"status {response.status_code}")
            elif wrong := fault(text, response.json()["translatedText"]):
                response.failure(wrong)


class Mixture(User):
    """Sentences mostly, some lists, the shortest texts next to the longest, a few documents; with pauses."""

    wait_time = between(0.2, 1.5)

    @task(10)
    def _one_sentence(self) -> None:
        self.sentence("one sentence")

    @task(3)
    def _interface(self) -> None:
        self.sentences("list", 4, 16)

    @task(2)
    def _mixed_lengths(self) -> None:
        source, target = self.draw.choice(DIRECTIONS)
        by_length = sorted(TEXTS[source], key=len)
        self.translate("mixed lengths", [by_length[0], by_length[-1], by_length[1], ""], source, target)

    @task(1)
    def _page(self) -> None:
        source, target = self.draw.choice(DIRECTIONS)
        self.translate("document", document(self.draw, source), source, target)


class Regular(User):
    """A sentence a second, however long answers take."""

    wait_time = constant_pacing(1)

    @task
    def _one_sentence(self) -> None:
        self.sentence("one sentence")


class Burst(User):
    """All users at the same moment, and again some seconds later."""

    @task
    def _with_all_others(self) -> None:
        sleep(_BURST_SECONDS - time.monotonic() % _BURST_SECONDS)
        self.sentence("in a burst")


class Short(User):
    """A stream of sentences."""

    weight = 3
    wait_time = constant(0.05)

    @task
    def _one_sentence(self) -> None:
        self.sentence("short")


class Long(User):
    """Texts as long as the service permits, one after the other."""

    weight = 1

    @task
    def _whole_document(self) -> None:
        source, target = self.draw.choice(DIRECTIONS)
        self.translate("long", longest_document(self.draw, source, _MOST_CHARACTERS), source, target)


class Batch(User):
    """A program that translates in bulk, as many texts as a request may have, or a quarter of them."""

    @task
    def _many(self) -> None:
        self.sentences("batch", 64, 256)


class Modest(User):
    """One client with one request at a time; half of the time a greedy client keeps the service busy."""

    fixed_count = 1
    _kind = ALONE

    def on_start(self) -> None:
        """Start the greedy client's timetable."""
        spawn(self._share, Target.of(self.host or "", _KEYS))

    @task
    def _one_sentence(self) -> None:
        self.sentence(self._kind)

    def _share(self, target: Target) -> None:
        """Have the service to itself, then beside a process that asks as much as it can, in turns.

        Other work on the machine comes and goes: it must not meet one of the two alone.
        """
        greedy = target.clients(2)[1]
        rounds = max(1, int(_SECONDS // _SECONDS_A_ROUND))
        seconds = _SECONDS / rounds / 2
        job = ClosedLoop(
            host=target.host,
            port=target.port,
            headers=greedy.headers,
            source=greedy.address,
            bodies=sentence_requests(),
            concurrency=_GREEDY_CONNECTIONS,
            seconds=seconds - 3 * _SETTLING_SECONDS,
        )
        order = json.dumps(asdict(job)).encode() + b"\n"
        for _ in range(rounds):
            self._kind = ALONE
            sleep(seconds)
            self._kind = _BETWEEN
            reading = spawn(Popen(COMMAND, stdin=PIPE, stdout=PIPE).communicate, order)
            sleep(_SETTLING_SECONDS)
            self._kind = BESIDE
            reading.join()
            self._kind = _BETWEEN


def _promised(kinds: Mapping[str, Mapping[float, float]], *, refusals: float = 0.01) -> Objectives:
    scaled = {kind: {share: ms * SCALE for share, ms in limits.items()} for kind, limits in kinds.items()}
    return Objectives(latency_ms=scaled, refusals=refusals)


SCENARIOS: Mapping[str, tuple[Sequence[type[User]], Objectives]] = {
    "mixture": ([Mixture], _promised(_MIXTURE)),
    "steady": ([Regular], _promised(_STEADY, refusals=0)),
    "burst": ([Burst], _promised(_BURST, refusals=0.5)),
    "lengths": ([Short, Long], _promised(_LENGTHS)),
    "fairness": ([Modest], Objectives(latency_ms={}, refusals=0, compared=(ALONE, BESIDE))),
    "batches": ([Batch], _promised(_BATCHES)),
}
"""Kinds of clients, and what they were promised."""
