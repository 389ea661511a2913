"""Simulated clients in each scenario, and what they were promised.

Importing this module replaces Python's sockets, as locust does. Times are meant for two CPU cores that do
nothing else.
"""

import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from random import Random

from gevent import sleep, spawn
from locust import FastHttpUser, between, constant, constant_pacing, task
from locust.env import Environment
from locust.stats import print_error_report

from benchmarks.load.generator import REFUSALS, Client, Load, run_apart
from benchmarks.load.objectives import REFUSED, Level, Objectives
from benchmarks.load.target import Accounts
from benchmarks.load.texts import DIRECTIONS, TEXTS, document, fault, longest_document, sentence_requests

ALONE, BESIDE, _BETWEEN = "modest, alone", "modest, beside a greedy one", "modest, between"
_BURST_SECONDS = 10
_MOST_CHARACTERS = 10_000
_GREEDY_CONNECTIONS = 60
_SETTLING_SECONDS = 0.5
_SECONDS_A_ROUND = 10
_STOP_SECONDS = 60


class User(FastHttpUser):
    """A client that sends requests and checks the answers; its subclasses say which, and how often."""

    abstract = True
    connection_timeout = 60.0
    network_timeout = 60.0
    wait_time = constant(0)
    draw = Random(1)

    @property
    def options(self) -> Namespace:
        """The `clients` of the scenario and its `seconds`."""
        options: Namespace = self.environment.parsed_options
        return options

    def sentence(self, kind: str) -> None:
        """Have one sentence translated."""
        self.translate(kind, lambda language: self.draw.choice(TEXTS[language]))

    def sentences(self, kind: str, least: int, most: int) -> None:
        """Have a list of sentences translated."""
        count = self.draw.randint(least, most)
        self.translate(kind, lambda language: self.draw.choices(TEXTS[language], k=count))

    def translate(self, kind: str, write: Callable[[str], str | Sequence[str]]) -> None:
        """Send what a function writes in a language, and record it under its kind, or as refused.

        An answer with a fault is a failure.
        """
        source, target = self.draw.choice(DIRECTIONS)
        text = write(source)
        body = {"q": text, "source": source, "target": target}
        headers = self.options.clients[0].headers
        with self.client.post(
            "/translate", json=body, headers=headers, name=kind, catch_response=True
        ) as response:
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
        self.translate("mixed lengths", _mixed_lengths)

    @task(1)
    def _page(self) -> None:
        self.translate("document", lambda language: document(self.draw, language))


def _mixed_lengths(language: str) -> list[str]:
    by_length = sorted(TEXTS[language], key=len)
    return [by_length[0], by_length[-1], by_length[1], ""]


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
        self.translate("long", lambda language: longest_document(self.draw, language, _MOST_CHARACTERS))


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
        spawn(self._share, self.options.clients[1], self.options.seconds)

    @task
    def _one_sentence(self) -> None:
        self.sentence(self._kind)

    def _share(self, greedy: Client, seconds: float) -> None:
        """Have the service to itself, then beside a process that asks as much as it can, in turns.

        Other work on the machine comes and goes: it must not meet one of the two alone.
        """
        rounds = max(1, int(seconds // _SECONDS_A_ROUND))
        half = seconds / rounds / 2
        load = Load(
            client=greedy,
            bodies=sentence_requests(),
            connections=_GREEDY_CONNECTIONS,
            seconds=half - 3 * _SETTLING_SECONDS,
        )
        for _ in range(rounds):
            self._kind = ALONE
            sleep(half)
            self._kind = _BETWEEN
            asking = spawn(run_apart, load)
            sleep(_SETTLING_SECONDS)
            self._kind = BESIDE
            try:
                asking.get()
            finally:
                self._kind = _BETWEEN


SCENARIOS: Mapping[str, tuple[Sequence[type[User]], Objectives]] = {
    "mixture": (
        [Mixture],
        Objectives(
            latency_ms={
                "one sentence": {0.95: 1500},
                "list": {0.95: 5000},
                "mixed lengths": {0.95: 4000},
                "document": {0.95: 6000},
            }
        ),
    ),
    "steady": (
        [Regular],
        Objectives(latency_ms={"one sentence": {0.5: 200, 0.95: 500, 0.99: 1000}}, refusals=0),
    ),
    "burst": ([Burst], Objectives(latency_ms={"in a burst": {0.5: 5000, 0.99: 10_000}}, refusals=0.5)),
    "lengths": (
        [Short, Long],
        Objectives(latency_ms={"short": {0.5: 2000, 0.99: 5000}, "long": {0.99: 20_000}}),
    ),
    "fairness": ([Modest], Objectives(latency_ms={}, refusals=0, compared=(ALONE, BESIDE))),
    "batches": ([Batch], Objectives(latency_ms={"batch": {0.5: 10_000, 0.99: 20_000}})),
}
"""Kinds of clients, and what they were promised."""


def simulate(
    scenario: str, url: str, clients: Sequence[Client], *, users: int, seconds: float, scale: float
) -> list[Level]:
    """Run a scenario for some seconds after the last user began; `scale` multiplies the promised times."""
    kinds, promised = SCENARIOS[scenario]
    environment = Environment(
        user_classes=list(kinds),
        host=url,
        stop_timeout=_STOP_SECONDS,
        parsed_options=Namespace(clients=clients, seconds=seconds),
    )
    runner = environment.create_local_runner()
    runner.start(users, spawn_rate=users)
    if spawning := runner.spawning_greenlet:
        spawning.join()
    sleep(seconds)
    runner.quit()
    if environment.stats.errors:
        print_error_report(environment.stats)
    seen = {entry.name: entry for entry in environment.stats.entries.values()}
    unaccounted = Accounts.settled(url).unaccounted
    return [
        *promised.levels(seen, scale),
        Level(objective="requests that are unaccounted for", measured=unaccounted, limit=0),
    ]
