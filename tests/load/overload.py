"""Many times more requests than a service can answer: what becomes of each, and how soon."""

import asyncio
import json
import math
import time
from urllib.request import urlopen

from tests.load.accounts import Accounts
from tests.load.arrivals import Stream
from tests.load.capacity import measure_capacity
from tests.load.objectives import Level
from tests.load.open_loop import send
from tests.load.ordeal import Ordeal, judge
from tests.load.target import Target
from tests.load.texts import sentence_requests

_MOST_CAPACITY_SECONDS = 5.0
# A queue is no clockwork: requests are of different sizes, and the machine has other things to do.
_SLACK = 1.5
_SETTLING_SECONDS = 30.0


def overload(target: Target, *, connections: int, seconds: float, factor: float) -> list[Level]:
    """Offer a service so many times what it can do, and judge how it bears that.

    Args:
        target: The service.
        connections: Kept busy to find out what it can do.
        seconds: How long it is overloaded.
        factor: How many times.

    Raises:
        RuntimeError: If the service answers nothing even before.
        OSError: If it is not there.
    """
    ordeal = asyncio.run(_ordeal(target, connections, seconds, factor))
    return list(judge(ordeal))


async def _ordeal(target: Target, connections: int, seconds: float, factor: float) -> Ordeal:
    (client,) = target.clients(1)
    bodies = sentence_requests()
    capacity = await measure_capacity(
        target, client, bodies, connections=connections, seconds=min(seconds, _MOST_CAPACITY_SECONDS)
    )
    await _idle(target.url)
    requests = target.requests(client, bodies)
    stream = Stream(
        host=target.host,
        port=target.port,
        requests=requests,
        rate=factor * capacity.rate,
        seconds=seconds,
        sources=[client.address],
    )
    before = Accounts.of(target.url)
    seen = await send(stream)
    after = await _idle(target.url)
    return Ordeal(
        capacity=capacity,
        stream=stream,
        seen=seen,
        before=before,
        after=after,
        longest_wait=longest_wait(target.url, seen.goodput(seconds)),
    )


async def _idle(url: str) -> Accounts:
    """What a service has counted once it is answering nobody but us."""
    until = time.monotonic() + _SETTLING_SECONDS
    while (accounts := Accounts.of(url)).in_flight > 1 and time.monotonic() < until:
        await asyncio.sleep(0.1)
    return accounts


def longest_wait(url: str, rate: float) -> float:
    """Seconds that an accepted request may take by the limits that a service publishes.

    Who is let in when the house is full goes out when as many as are inside have been answered, and by
    the deadline at the latest (J. D. C. Little 1961, https://doi.org/10.1287/opre.9.3.383).

    Args:
        url: Of the service.
        rate: Answers a second.
    """
    with urlopen(f"{url}/models", timeout=10) as response:
        limits = json.load(response)[0]["limits"]
    inside = float(limits.get("max_requests", math.inf))
    deadline = float(limits.get("request_timeout_ms", 30_000)) / 1000
    return min(_SLACK * inside / rate if rate else math.inf, deadline)
