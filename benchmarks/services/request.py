"""What a request costs besides decoding: computing of our service with a null backend, and of a FastAPI echo.

python -m benchmarks.services.request --checkpoint checkpoints/NAME --output runs/bench
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import click

from benchmarks.harness.options import Timing, benchmark, counted, deliver, several, timing_options
from benchmarks.harness.report import Report, Row, rounded
from benchmarks.harness.texts import STEADY, word_texts
from benchmarks.harness.timing import Duration, median_seconds, ratio_of, take_turns
from benchmarks.services import Service, echo_service, null_service
from benchmarks.services.traffic import Workload, send
from model.checkpoint.folder import load_checkpoint

_METHOD = (
    "One text of 24 tokens a request, kept-alive connections. Both services do all that a request needs, "
    "with metrics and a log line at ours, but the engine gives the source back at once. Counted is the "
    "computing of the service's process, not the time that passes."
)
# The operating system's clock ticks a hundred times a second: a round must take many ticks.
_REQUESTS = 3000


@benchmark
@click.option("--checkpoint", required=True, type=click.Path(exists=True, path_type=Path), help="Its texts.")
@several("concurrency", "concurrency", None, [1, 32], "Connections.")
@counted("requests", _REQUESTS, "Requests in each round.")
@timing_options
def main(checkpoint: Path, concurrency: Sequence[int], requests: int, timing: Timing) -> None:
    """Measure what everything except decoding costs."""
    settings = {"checkpoint": checkpoint.name, "requests": requests, "timing": timing}
    report = Report(timing.name or "request", settings, [1])
    report.notes += [timing.note(), _METHOD]
    loads = [_workload(checkpoint, connections, requests, timing.seed) for connections in concurrency]
    with ExitStack() as running:
        services = [
            running.enter_context(Service(spec)) for spec in (null_service(checkpoint), echo_service())
        ]
        for service in services:
            send(service, loads[0])
        costs = {
            load.concurrency: take_turns(
                {service.spec.name: partial(_cost, service, load) for service in services}, timing.rounds
            )
            for load in loads
        }
    results = [
        {"concurrency": connections, "service": name, "seconds": each.processor}
        for connections, found in costs.items()
        for name, rounds in found.items()
        for each in rounds
    ]
    report.add("Computing a request", _rows(costs), "request", results)
    deliver(report, timing.output)


def _workload(folder: Path, connections: int, requests: int, seed: int) -> Workload:
    checkpoint = load_checkpoint(folder)
    source, target = checkpoint.card.pairs[0]
    return Workload(
        name="steady",
        texts=word_texts(checkpoint.tokenizer, STEADY, 72, seed),
        concurrency=connections,
        seconds=None,
        source=source,
        target=target,
        decoding={"strategy": "greedy"},
        most=requests,
    )


def _cost(service: Service, load: Workload, _round: int) -> Duration:
    """What one request took, on average."""
    traffic = send(service, load)
    count = len(traffic.latencies)
    return Duration(sum(traffic.latencies) / count, traffic.processor / count)


def _rows(costs: Mapping[int, Mapping[str, list[Duration]]]) -> list[Row]:
    return [
        {
            "concurrency": str(connections),
            "service": name,
            "computing a request, ms": rounded(median_seconds(rounds, "processor") * 1e3),
            "ours divided by the echo's": _ratio(*services.values()) if index == 0 else "",
        }
        for connections, services in costs.items()
        for index, (name, rounds) in enumerate(services.items())
    ]


def _ratio(ours: Sequence[Duration], theirs: Sequence[Duration]) -> str:
    """How many times as much ours computed; a dash where a round was shorter than a tick of the clock."""
    if not all(duration.processor for duration in theirs):
        return "–"
    return str(ratio_of([one.processor / other.processor for one, other in zip(ours, theirs, strict=True)]))


if __name__ == "__main__":
    main()
