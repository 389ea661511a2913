"""Scenarios of clients, and what they were promised, on two CPU cores that do nothing else."""

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random
from typing import NamedTuple

from benchmarks.load.generator import Client, Load, Seen, run_apart
from benchmarks.load.objectives import Level, Objectives, Tally
from benchmarks.load.target import Accounts
from benchmarks.load.texts import DIRECTIONS, TEXTS, document, fault, longest_document, sentence_requests

ALONE, BESIDE = "modest, alone", "modest, beside a greedy one"
_PAUSE_SECONDS = 0.85
_BURST_SECONDS = 10.0
_BURST_RATE = 1e5
_MOST_CHARACTERS = 10_000
_GREEDY_CONNECTIONS = 60
_SETTLING_SECONDS = 0.5
_SECONDS_A_ROUND = 10

Write = Callable[[Random, str], str | list[str]]
"""Returns what a client asks to translate from a language."""


class Question(NamedTuple):
    """A request for a translation."""

    kind: str
    q: str | list[str]
    body: str  # the JSON that is sent


def _questions(kind: str, write: Write, count: int = 40) -> list[Question]:
    """Returns requests of one kind; the language pairs take turns."""
    draw, made = Random(1), []
    for number in range(count):
        source, target = DIRECTIONS[number % len(DIRECTIONS)]
        q = write(draw, source)
        body = json.dumps({"q": q, "source": source, "target": target}, ensure_ascii=False)
        made.append(Question(kind, q, body))
    return made


def _sentence(draw: Random, language: str) -> str:
    return draw.choice(TEXTS[language])


def _sentences(least: int, most: int) -> Write:
    return lambda draw, language: draw.choices(TEXTS[language], k=draw.randint(least, most))


def _mixed_lengths(_draw: Random, language: str) -> list[str]:
    by_length = sorted(TEXTS[language], key=len)
    return [by_length[0], by_length[-1], by_length[1], ""]


def _longest(draw: Random, language: str) -> str:
    return longest_document(draw, language, _MOST_CHARACTERS)


class Stream(NamedTuple):
    """Requests that one process sends."""

    load: Load
    asked: Sequence[Question] = ()  # what its bodies are; without this, its answers are not judged


def _stream(asked: Sequence[Question], load: Load) -> Stream:
    return Stream(replace(load, bodies=[each.body for each in asked]), asked)


Streams = Iterator[Sequence[Stream]]
"""Streams that begin together; the next ones begin when all of them have ended."""


def _mixture(clients: Sequence[Client], users: int, seconds: float) -> Streams:
    """Sentences mostly, some lists, the shortest texts next to the longest, a few documents; with pauses."""
    asked = [
        *_questions("one sentence", _sentence),
        *_questions("list", _sentences(4, 16), 12),
        *_questions("mixed lengths", _mixed_lengths, 8),
        *_questions("document", document, 4),
    ]
    Random(1).shuffle(asked)
    yield [_stream(asked, Load(client=clients[0], rate=users / _PAUSE_SECONDS, seconds=seconds))]


def _steady(clients: Sequence[Client], users: int, seconds: float) -> Streams:
    """A sentence a second from each user, however long answers take."""
    asked = _questions("one sentence", _sentence)
    yield [_stream(asked, Load(client=clients[0], rate=users, seconds=seconds))]


def _burst(clients: Sequence[Client], users: int, seconds: float) -> Streams:
    """All users at the same moment, and again some seconds later."""
    asked = _questions("in a burst", _sentence)
    load = Load(client=clients[0], rate=_BURST_RATE, seconds=users / _BURST_RATE)
    until = time.monotonic() + seconds
    while (began := time.monotonic()) < until:
        yield [_stream(asked, load)]
        time.sleep(max(0.0, min(began + _BURST_SECONDS, until) - time.monotonic()))


def _lengths(clients: Sequence[Client], users: int, seconds: float) -> Streams:
    """Sentences, and from one in four users texts as long as the service permits, one after the other."""
    short, long = _questions("short", _sentence), _questions("long", _longest)
    num_long = max(1, users // 4)
    load = Load(client=clients[0], connections=max(1, users - num_long), seconds=seconds)
    yield [_stream(short, load), _stream(long, replace(load, connections=num_long))]


def _fairness(clients: Sequence[Client], _users: int, seconds: float) -> Streams:
    """One client with one request at a time has the service to itself, then beside a greedy one, in turns.

    Other work on the machine comes and goes: it must not meet one of the two alone.
    """
    modest, greedy = clients
    rounds = max(1, int(seconds // _SECONDS_A_ROUND))
    half = seconds / rounds / 2
    crowd = Load(client=greedy, bodies=sentence_requests(), connections=_GREEDY_CONNECTIONS, seconds=half)
    alone = Load(client=modest, connections=1, seconds=half)
    beside = replace(alone, seconds=half - 3 * _SETTLING_SECONDS, warm_up_seconds=_SETTLING_SECONDS)
    for _ in range(rounds):
        yield [_stream(_questions(ALONE, _sentence), alone)]
        yield [Stream(crowd), _stream(_questions(BESIDE, _sentence), beside)]


def _batches(clients: Sequence[Client], users: int, seconds: float) -> Streams:
    """Programs that translate in bulk, as many texts as a request may have, or a quarter of them."""
    asked = _questions("batch", _sentences(64, 256))
    yield [_stream(asked, Load(client=clients[0], connections=users, seconds=seconds))]


class Scenario(NamedTuple):
    """What clients do, and what they were promised."""

    users: int  # unless told otherwise
    streams: Callable[[Sequence[Client], int, float], Streams]  # of so many users, for some seconds
    promised: Objectives


SCENARIOS: Mapping[str, Scenario] = {
    "mixture": Scenario(
        8,
        _mixture,
        Objectives(
            latency_ms={
                "one sentence": {0.95: 1500},
                "list": {0.95: 5000},
                "mixed lengths": {0.95: 4000},
                "document": {0.95: 6000},
            }
        ),
    ),
    "steady": Scenario(
        8, _steady, Objectives(latency_ms={"one sentence": {0.5: 200, 0.95: 500, 0.99: 1000}}, refusals=0)
    ),
    "burst": Scenario(
        800, _burst, Objectives(latency_ms={"in a burst": {0.5: 5000, 0.99: 10_000}}, refusals=0.5)
    ),
    "lengths": Scenario(
        8, _lengths, Objectives(latency_ms={"short": {0.5: 2000, 0.99: 5000}, "long": {0.99: 20_000}})
    ),
    "fairness": Scenario(1, _fairness, Objectives(latency_ms={}, refusals=0, compared=(ALONE, BESIDE))),
    "batches": Scenario(4, _batches, Objectives(latency_ms={"batch": {0.5: 10_000, 0.99: 20_000}})),
}
"""By name."""


def _judge(asked: Sequence[Question], seen: Seen, tallies: Mapping[str, Tally]) -> None:
    """Note what came of each kind of request."""
    if not asked:
        return
    for sample in seen.samples:
        tallies[asked[sample.which].kind].note(sample)
    for which, answers in seen.answers.items():
        for answer in answers:
            if wrong := fault(asked[which].q, json.loads(answer)["translatedText"]):
                tallies[asked[which].kind].faults[wrong] += 1
    tallies[asked[0].kind].faults["no answer"] += seen.lost + seen.left


def simulate(
    scenario: str, url: str, clients: Sequence[Client], *, users: int, seconds: float, scale: float
) -> list[Level]:
    """Run a scenario for some seconds; `scale` multiplies the promised times.

    Raises:
        RuntimeError: If a client that waits for its answers loses a connection.
        OSError: If the service is not there.
    """
    chosen = SCENARIOS[scenario]
    tallies: dict[str, Tally] = defaultdict(Tally)
    for streams in chosen.streams(clients, users, seconds):
        with ThreadPoolExecutor() as threads:
            outcomes = threads.map(run_apart, [each.load for each in streams])
            for each, seen in zip(streams, outcomes, strict=True):
                _judge(each.asked, seen, tallies)
    for kind, tally in tallies.items():
        for wrong, times in (+tally.faults).items():
            print(f"{kind}: {wrong}, {times} times", file=sys.stderr)
    unaccounted = Accounts.settled(url).unaccounted
    return [
        *chosen.promised.levels(tallies, scale),
        Level(objective="requests that are unaccounted for", measured=unaccounted, limit=0),
    ]
