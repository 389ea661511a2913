"""Throughput and latency of a service against the rate at which requests arrive, from idle to overloaded."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from benchmarks.machine import describe_machine, installed_version, load_average
from benchmarks.percentiles import percentile
from benchmarks.report import Report, Table, rounded
from tests.load.accounts import scrape
from tests.load.arrivals import REFUSALS, Seen, Stream
from tests.load.capacity import Capacity, measure_capacity
from tests.load.open_loop import send
from tests.load.target import Target
from tests.load.texts import sentence_requests

NAME = "saturation"
# Of the capacity.
SHARES = (0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0)
_CAPACITY_SECONDS = 5.0
_COLUMNS = (
    "offered a second",
    "good answers a second",
    "refused",
    "p50, ms",
    "p95, ms",
    "p99, ms",
    "p50 of refusals, ms",
    "sent late by, p99, ms",
    "failed",
)
_METHOD = (
    "Requests of one sentence each, as a Poisson stream that does not wait for answers; latencies are those "
    "of good answers, and count from the time when a request was meant to be sent. *Sent late* is what of "
    "that is the generator's own. Generator and service share the machine unless said otherwise."
)


@dataclass(frozen=True, kw_only=True)
class Point:
    """A service at one rate of arrival.

    Attributes:
        offered: Requests a second that were meant to be sent.
        sent: Requests a second that were.
        answered: Good answers a second, while requests came.
        refused: Share of the requests, 0 to 1.
        p50: Seconds until good answers.
        p95: Seconds until good answers.
        p99: Seconds until good answers.
        refusal_p50: Seconds until refusals.
        late_p99: Seconds that requests were sent late.
        failed: Other answers, lost connections, and requests that were never answered or sent.
        generator_share: Seconds of the generator's computing a second.
    """

    offered: float
    sent: float
    answered: float
    refused: float
    p50: float
    p95: float
    p99: float
    refusal_p50: float
    late_p99: float
    failed: int
    generator_share: float

    @classmethod
    def of(cls, stream: Stream, seen: Seen) -> "Point":
        """What a stream showed."""
        samples = seen.samples
        good = [sample for sample in samples if sample.status == 200]
        refused = [sample for sample in samples if sample.status in REFUSALS]
        latencies = sorted(sample.ended - sample.intended for sample in good)
        return cls(
            offered=stream.rate,
            sent=len(samples) / stream.seconds,
            answered=seen.goodput(stream.seconds),
            refused=len(refused) / max(len(samples), 1),
            p50=percentile(latencies, 0.5),
            p95=percentile(latencies, 0.95),
            p99=percentile(latencies, 0.99),
            refusal_p50=percentile(sorted(sample.ended - sample.sent for sample in refused), 0.5),
            late_p99=percentile(sorted(sample.sent - sample.intended for sample in samples), 0.99),
            failed=len(samples) - len(good) - len(refused) + seen.lost + seen.left + seen.unsent,
            generator_share=seen.processor / stream.seconds,
        )

    def to_dict(self) -> dict[str, object]:
        """Everything measured, for JSON; what there was none of is null."""
        figures = {name: None if value != value else value for name, value in asdict(self).items()}
        return {"kind": "arrivals", **figures}

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        times = (self.p50, self.p95, self.p99, self.refusal_p50, self.late_p99)
        return (
            rounded(self.offered),
            rounded(self.answered),
            f"{self.refused:.1%}",
            *("–" if seconds != seconds else rounded(1e3 * seconds) for seconds in times),
            str(self.failed),
        )


def saturation(
    target: Target, *, connections: int, seconds: float, output: Path, shares: Sequence[float] = SHARES
) -> None:
    """Measure, print the table, and leave Markdown, JSON and a plot in a folder.

    Args:
        target: The service.
        connections: Kept busy to find out what it can do.
        seconds: At each rate.
        output: Folder.
        shares: Rates, as parts of the capacity.

    Raises:
        RuntimeError: If the service answers nothing.
        OSError: If it is not there.
    """
    load_before = load_average()
    capacity, points = asyncio.run(_measure(target, connections, seconds, shares))
    report = Report(
        name=NAME,
        machine=describe_machine([int(scrape(target.url)["dragoman_workers"])]),
        loads=(load_before, load_average()),
        settings={"connections": connections, "seconds": seconds, "capacity": capacity.rate},
        notes=[
            f"Capacity with {connections} busy connections: {capacity.rate:,.0f} good answers a second.",
            _METHOD,
        ],
        tables=[
            Table(title="Against the rate of arrival", columns=_COLUMNS, rows=[p.cells() for p in points])
        ],
        results=[point.to_dict() for point in points],
    )
    click.echo(report.markdown())
    report.write(output)
    if installed_version("matplotlib"):
        from tests.load.plot import plot_saturation

        plot_saturation(points, output / f"{NAME}.png")
    click.echo(f"Written to {output}", err=True)


async def _measure(
    target: Target, connections: int, seconds: float, shares: Sequence[float]
) -> tuple[Capacity, list[Point]]:
    (client,) = target.clients(1)
    bodies = sentence_requests()
    capacity = await measure_capacity(
        target, client, bodies, connections=connections, seconds=min(seconds, _CAPACITY_SECONDS)
    )
    requests = target.requests(client, bodies)
    points = []
    for number, share in enumerate(shares):
        stream = Stream(
            host=target.host,
            port=target.port,
            requests=requests,
            rate=share * capacity.rate,
            seconds=seconds,
            sources=[client.address],
            seed=number,
        )
        points.append(Point.of(stream, await send(stream)))
    return capacity, points
