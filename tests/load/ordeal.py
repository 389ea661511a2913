"""What an overload did to a service, judged."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.percentiles import percentile
from tests.load.accounts import Accounts
from tests.load.arrivals import REFUSALS, Seen, Stream
from tests.load.capacity import Capacity
from tests.load.objectives import Level

_REFUSAL_MS = 20.0
_LEAST_GOODPUT = 0.5
_LEAST_OFFERED = 0.95
_MEMORY = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class Ordeal:
    """What was done to a service, and what it did.

    Attributes:
        capacity: Before.
        stream: What it was offered.
        seen: What came of that.
        before: What it had counted before.
        after: What it had counted when all was over.
        longest_wait: Seconds that its settings permit an accepted request to take.
    """

    capacity: Capacity
    stream: Stream
    seen: Seen
    before: Accounts
    after: Accounts
    longest_wait: float


def judge(ordeal: Ordeal) -> Iterator[Level]:
    """All objectives."""
    yield from _sending(ordeal)
    yield from _answers(ordeal)
    yield from _latencies(ordeal)
    yield from _accounting(ordeal)
    yield from _memory(ordeal)


def _sending(ordeal: Ordeal) -> Iterator[Level]:
    stream, seen = ordeal.stream, ordeal.seen
    sent = len(seen.samples) + seen.left + seen.lost
    yield _share(f"sent, of {stream.rate:,.0f} a second", sent, sent + seen.unsent, _LEAST_OFFERED)
    yield _count("lost connections", seen.lost)


def _answers(ordeal: Ordeal) -> Iterator[Level]:
    samples = ordeal.seen.samples
    strange = sum(sample.status not in (200, *REFUSALS) for sample in samples)
    good = ordeal.seen.goodput(ordeal.stream.seconds)
    yield _count("answers other than 200, 429 and 503", strange)
    yield _count("refusals without Retry-After", sum(not sample.is_orderly for sample in samples))
    yield _count("clients that gave up waiting", ordeal.seen.left)
    rate = ordeal.capacity.rate
    yield _share(f"good answers, of the capacity of {rate:,.0f} a second", good, rate, _LEAST_GOODPUT)


def _latencies(ordeal: Ordeal) -> Iterator[Level]:
    samples = ordeal.seen.samples
    refused = sorted(s.ended - s.sent for s in samples if s.status in REFUSALS)
    accepted = sorted(s.ended - s.intended for s in samples if s.status == 200)
    yield _milliseconds("refused: p50, from sending", refused, 0.5, _REFUSAL_MS)
    yield _milliseconds("accepted: p99, from arrival", accepted, 0.99, 1e3 * ordeal.longest_wait)


def _accounting(ordeal: Ordeal) -> Iterator[Level]:
    """Besides us only probes may ask meanwhile: those are answered, but not with translations."""
    before, after, samples = ordeal.before, ordeal.after, ordeal.seen.samples
    refused = sum(sample.status in REFUSALS for sample in samples)
    yield _count("requests that are unaccounted for", after.unaccounted)
    yield _count(
        "answers that were not counted", max(0.0, len(samples) - refused - after.answered + before.answered)
    )
    yield _count("refusals counted too many or too few", abs(refused - after.refused + before.refused))
    yield _count("requests left in flight", after.in_flight - 1)


def _memory(ordeal: Ordeal) -> Iterator[Level]:
    grown = ordeal.after.resident - ordeal.before.resident
    if not math.isnan(grown):
        yield Level(
            objective="memory that did not come back",
            measured=grown / 2**20,
            limit=_MEMORY / 2**20,
            unit="MiB",
        )


def _count(objective: str, measured: float) -> Level:
    return Level(objective=objective, measured=measured, limit=0)


def _share(objective: str, part: float, whole: float, least: float) -> Level:
    measured = 100 * part / whole if whole else math.nan
    return Level(objective=objective, measured=measured, limit=100 * least, unit="%", is_floor=True)


def _milliseconds(objective: str, seconds: Sequence[float], share: float, limit: float) -> Level:
    return Level(objective=objective, measured=1e3 * percentile(seconds, share), limit=limit, unit="ms")
