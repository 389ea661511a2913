"""Throughput and latency of a service against the rate at which requests arrive, from idle to overloaded."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.report import Plot, Report, Row, rounded
from benchmarks.harness.timing import percentile
from benchmarks.load.generator import REFUSALS, Seen, Stream, send
from benchmarks.load.overload import measure_capacity
from benchmarks.load.target import Target, scrape
from benchmarks.load.texts import sentence_requests

NAME = "saturation"
SHARES = (0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0)
"""Rates of arrival, as parts of the capacity."""
_METHOD = (
    "Requests of one sentence each, as a Poisson stream that does not wait for answers; latencies are those "
    "of good answers, and count from the time when a request was meant to be sent. *Sent late* is what of "
    "that is the generator's own. Generator and service share the machine unless said otherwise."
)


@dataclass(frozen=True, kw_only=True)
class Point:
    """A service at one rate of arrival."""

    offered: float  # requests a second that were meant to be sent
    sent: float  # requests a second that were sent
    answered: float  # good answers a second, while requests came
    refused: float  # share of the requests, 0 to 1
    p50: float  # seconds until good answers; likewise p95 and p99
    p95: float
    p99: float
    refusal_p50: float  # seconds until refusals
    late_p99: float  # seconds that requests were sent late
    failed: int  # other answers, lost connections, and requests that were never answered or sent
    generator_share: float  # seconds of the generator's computing a second

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

    def row(self) -> Row:
        """A row of the table."""
        return {
            "offered a second": rounded(self.offered),
            "good answers a second": rounded(self.answered),
            "refused": f"{self.refused:.1%}",
            "p50, ms": rounded(1e3 * self.p50),
            "p95, ms": rounded(1e3 * self.p95),
            "p99, ms": rounded(1e3 * self.p99),
            "p50 of refusals, ms": rounded(1e3 * self.refusal_p50),
            "sent late by, p99, ms": rounded(1e3 * self.late_p99),
            "failed": str(self.failed),
        }


def saturation(
    target: Target, *, connections: int, seconds: float, output: Path, shares: Sequence[float] = SHARES
) -> str:
    """Measure, leave Markdown, JSON and a plot in a folder, and return the Markdown.

    Args:
        target: The service.
        connections: Kept busy to find out what it can do.
        seconds: How long requests come at each rate.
        output: Folder.
        shares: Rates, as parts of the capacity.

    Raises:
        RuntimeError: If the service answers nothing.
        OSError: If it is not there.
    """
    settings: dict[str, object] = {"connections": connections, "seconds": seconds}
    report = Report(NAME, settings, [int(scrape(target.url)["dragoman_workers"])])
    capacity, points = asyncio.run(_measure(target, connections, seconds, shares))
    settings["capacity"] = capacity
    report.notes.append(
        f"Capacity with {connections} busy connections: {capacity:,.0f} good answers a second."
    )
    report.notes.append(_METHOD)
    report.add("Against the rate of arrival", [point.row() for point in points], "arrivals", points)
    report.plot = _plot(points)
    return report.write(output)


async def _measure(
    target: Target, connections: int, seconds: float, shares: Sequence[float]
) -> tuple[float, list[Point]]:
    (client,) = target.clients(1)
    capacity = await measure_capacity(target, client, connections=connections, seconds=seconds)
    requests = target.requests(client, sentence_requests())
    points = []
    for number, share in enumerate(shares):
        stream = Stream(
            host=target.host,
            port=target.port,
            requests=requests,
            rate=share * capacity,
            seconds=seconds,
            sources=[client.address],
            seed=number,
        )
        points.append(Point.of(stream, await send(stream)))
    return capacity, points


def _plot(points: Sequence[Point]) -> Plot:
    """Good answers and refusals on the left, latencies on the right, both against the offered rate."""
    rates = {
        "good answers": [point.answered for point in points],
        "refusals (503, 429)": [point.refused * point.sent for point in points],
        "all that was offered": [point.offered for point in points],
    }
    times = {
        "p99": [1e3 * point.p99 for point in points],
        "p95": [1e3 * point.p95 for point in points],
        "p50": [1e3 * point.p50 for point in points],
        "p50 of refusals": [1e3 * point.refusal_p50 for point in points],
    }
    panels = {"requests a second": rates, "milliseconds until a good answer": times}
    return Plot(panels, [point.offered for point in points], "requests offered a second")
