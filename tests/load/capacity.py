"""How much a service can do, found by keeping it busy."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.load import Job, load
from benchmarks.percentiles import percentile
from tests.load.target import PATH, Client, Target

_WARM_UP_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """What a service does at its best.

    Attributes:
        rate: Good answers a second.
        latencies: Seconds, sorted, while every connection waits for its answer.
    """

    rate: float
    latencies: Sequence[float]

    @property
    def slowest(self) -> float:
        """Seconds that 99 of 100 took at most."""
        return percentile(self.latencies, 0.99)


async def measure_capacity(
    target: Target, client: Client, bodies: Sequence[str], *, connections: int, seconds: float
) -> Capacity:
    """Keep so many connections busy for a while.

    Args:
        target: The service.
        client: Who asks.
        bodies: JSON, sent in turn.
        connections: Each with one request at a time.
        seconds: How long, after a second of warming up.

    Raises:
        RuntimeError: If nothing was answered well.
        OSError: If a connection was lost.
    """
    job = Job(
        host=target.host,
        port=target.port,
        path=PATH,
        headers=client.headers,
        source=client.address,
        bodies=bodies,
        concurrency=connections,
        seconds=seconds,
        warm_up_seconds=_WARM_UP_SECONDS,
        most=None,
    )
    tally = await load(job)
    samples = tally.samples
    good = sorted(latency for _, latency, status in samples if status == 200)
    if not good:
        raise RuntimeError(f"of {len(samples)} requests none was answered well")
    return Capacity(rate=len(good) / tally.seconds, latencies=good)
