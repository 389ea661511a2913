"""Many times more requests than a service can answer: what becomes of each, and how soon."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.harness.timing import percentile
from benchmarks.load.generator import REFUSALS, Client, Load, Seen, run
from benchmarks.load.objectives import Level
from benchmarks.load.target import Accounts, fetch
from benchmarks.load.texts import sentence_requests

_MOST_CAPACITY_SECONDS = 5.0
# Requests are of different sizes, and the machine has other things to do.
_SLACK = 1.5
_REFUSAL_MS = 20.0
_LEAST_GOODPUT, _LEAST_OFFERED = 60.0, 95.0
_MEMORY_MIB = 64.0


def measure_capacity(client: Client, *, connections: int, seconds: float) -> float:
    """Good answers a second while that many connections are kept busy, after a second of warming up.

    Raises:
        RuntimeError: If no answer was good.
        OSError: If a connection was lost.
    """
    busy = run(
        Load(
            client=client,
            bodies=sentence_requests(),
            connections=connections,
            seconds=min(seconds, _MOST_CAPACITY_SECONDS),
            warm_up_seconds=1.0,
        )
    )
    good = sum(sample.status == 200 for sample in busy.samples)
    if not good:
        raise RuntimeError(f"of {len(busy.samples)} requests none was answered well")
    return good / busy.seconds


@dataclass(frozen=True, kw_only=True)
class Overload:
    """What was done to a service, and what it did."""

    capacity: float  # good answers a second before
    rate: float  # requests a second that it was offered
    seconds: float  # how long
    seen: Seen  # what came of that
    before: Accounts  # what it had counted before
    after: Accounts  # what it had counted when all was over
    longest_wait: float  # seconds that its settings permit an accepted request to take


def overload(url: str, client: Client, *, connections: int, seconds: float, factor: float) -> list[Level]:
    """Offer a service `factor` times what `connections` busy connections got, and judge how it bears that.

    Raises:
        RuntimeError: If the service answers nothing even before.
        OSError: If it is not there.
    """
    capacity = measure_capacity(client, connections=connections, seconds=seconds)
    stream = Load(client=client, bodies=sentence_requests(), rate=factor * capacity, seconds=seconds)
    before = Accounts.settled(url)
    seen = run(stream)
    done = Overload(
        capacity=capacity,
        rate=factor * capacity,
        seconds=seconds,
        seen=seen,
        before=before,
        after=Accounts.settled(url),
        longest_wait=longest_wait(url, seen.goodput(seconds)),
    )
    return list(judge(done))


def longest_wait(url: str, rate: float) -> float:
    """Seconds that an accepted request may take by the limits that a service publishes.

    A request that is admitted as the last one is answered when as many as were admitted have been, and by the
    deadline at the latest (J. D. C. Little 1961, https://doi.org/10.1287/opre.9.3.383).
    """
    limits = json.loads(fetch(url, "/models"))[0]["limits"]
    inside = float(limits.get("max_requests", math.inf))
    deadline = float(limits.get("request_timeout_ms", 30_000)) / 1000
    return min(_SLACK * inside / rate if rate else math.inf, deadline)


def judge(done: Overload) -> Iterator[Level]:
    """All objectives of an overload."""
    seen, samples = done.seen, done.seen.samples
    refused = [sample for sample in samples if sample.status in REFUSALS]
    accepted = [sample for sample in samples if sample.status == 200]
    sent = len(samples) + seen.left + seen.lost
    good = seen.goodput(done.seconds)
    yield _share(f"sent, of {done.rate:,.0f} a second", sent, sent + seen.unsent, _LEAST_OFFERED)
    yield _count("lost connections", seen.lost)
    yield _count("answers other than 200, 429 and 503", len(samples) - len(refused) - len(accepted))
    yield _count("refusals without Retry-After", sum(not sample.is_orderly for sample in samples))
    yield _count("clients that gave up waiting", seen.left)
    capacity = f"good answers, of the capacity of {done.capacity:,.0f} a second"
    yield _share(capacity, good, min(done.capacity, done.rate), _LEAST_GOODPUT)
    waits = [sample.ended - sample.sent for sample in refused]
    yield _milliseconds("refused: p50, from sending", waits, 0.5, _REFUSAL_MS)
    latencies = [sample.seconds for sample in accepted]
    yield _milliseconds("accepted: p99, from arrival", latencies, 0.99, 1e3 * done.longest_wait)
    yield from _accounting(done.before, done.after, len(samples) - len(refused), len(refused))
    grown = (done.after.resident - done.before.resident) / 2**20
    if not math.isnan(grown):
        yield Level(objective="memory that did not come back", measured=grown, limit=_MEMORY_MIB, unit="MiB")


def _accounting(before: Accounts, after: Accounts, answered: int, refused: int) -> Iterator[Level]:
    """Probes may run next to these requests; their answers hold no translations."""
    yield _count("requests that are unaccounted for", after.unaccounted)
    yield _count("answers that were not counted", max(0.0, answered - after.answered + before.answered))
    yield _count("refusals counted too many or too few", abs(refused - after.refused + before.refused))
    yield _count("requests left in flight", after.in_flight - 1)


def _count(objective: str, measured: float) -> Level:
    return Level(objective=objective, measured=measured, limit=0)


def _share(objective: str, part: float, whole: float, least: float) -> Level:
    measured = 100 * part / whole if whole else math.nan
    return Level(objective=objective, measured=measured, limit=least, unit="%", is_floor=True)


def _milliseconds(objective: str, seconds: Sequence[float], share: float, limit: float) -> Level:
    measured = 1e3 * percentile(sorted(seconds), share)
    return Level(objective=objective, measured=measured, limit=limit, unit="ms")
