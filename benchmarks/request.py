"""What a request costs beside decoding: computing of a service that decodes nothing, and of a FastAPI echo.

python -m benchmarks.request --checkpoint checkpoints/NAME --output runs/bench
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import click

from benchmarks.engine import OURS
from benchmarks.machine import describe_machine, load_average
from benchmarks.options import Benchmark, Timing, counted, numbers, timing_options
from benchmarks.report import Report, Table, rounded
from benchmarks.rounds import Duration, median_seconds, ratio_of, take_turns
from benchmarks.servers import Recipe, Server, echo
from benchmarks.texts import STEADY, word_texts
from benchmarks.traffic import Load, send
from model.checkpoint.folder import load_checkpoint

COLUMNS = ("concurrency", "service", "computing a request, ms", "ours divided by the echo's")
_METHOD = (
    "One text of 24 tokens a request, kept-alive connections. Both services do all that a request needs, "
    "with metrics and a log line at ours, but the engine gives the source back at once. Counted is the "
    "computing of the service's process, not the time that passes."
)
# Long enough that the operating system's clock, which ticks a hundred times a second, is precise enough.
_REQUESTS = 3000


@click.command(cls=Benchmark)
@click.option("--checkpoint", required=True, type=click.Path(exists=True, path_type=Path), help="Its texts.")
@numbers("concurrency", "concurrency", [1, 32], "Connections.")
@counted("requests", _REQUESTS, "In each round.")
@timing_options
def main(checkpoint: Path, concurrency: Sequence[int], requests: int, timing: Timing) -> None:
    """Measure what all but decoding costs."""
    load_before = load_average()
    loads = _loads(checkpoint, concurrency, requests, timing.seed)
    with ExitStack() as running:
        servers = [running.enter_context(Server(recipe)) for recipe in (_instant(checkpoint), echo())]
        for server in servers:
            send(server, loads[0])
        costs = {load.concurrency: _costs(servers, load, timing.rounds) for load in loads}
    report = Report(
        name=timing.name or "request",
        machine=describe_machine([1]),
        loads=(load_before, load_average()),
        settings={"checkpoint": checkpoint.name, "requests": requests, "timing": timing},
        notes=[timing.note(), _METHOD],
        tables=[Table(title="Computing a request", columns=COLUMNS, rows=_rows(costs))],
        results=[
            {"kind": "request", "concurrency": connections, "service": name, "seconds": each.processor}
            for connections, services in costs.items()
            for name, rounds in services.items()
            for each in rounds
        ],
    )
    timing.deliver(report)


def _instant(checkpoint: Path) -> Recipe:
    command = (sys.executable, "-m", "benchmarks.instant", "--port={port}", f"--checkpoint={checkpoint}")
    return Recipe(name=f"{OURS}, nothing decoded", command=command, environment={})


def _loads(folder: Path, concurrency: Sequence[int], requests: int, seed: int) -> list[Load]:
    checkpoint = load_checkpoint(folder)
    source, target = checkpoint.card.pairs[0]
    return [
        Load(
            name="steady",
            texts=word_texts(checkpoint.tokenizer, (STEADY,), 72, seed),
            concurrency=connections,
            seconds=None,
            warm_up_seconds=0.0,
            source=source,
            target=target,
            decoding={"strategy": "greedy"},
            most=requests,
        )
        for connections in concurrency
    ]


def _costs(servers: Sequence[Server], load: Load, rounds: int) -> Mapping[str, list[Duration]]:
    """A request's share of each round, in turns."""
    return take_turns({server.recipe.name: partial(_cost, server, load) for server in servers}, rounds)


def _cost(server: Server, load: Load, _round: int) -> Duration:
    """What one request took, on average."""
    traffic = send(server, load)
    count = len(traffic.latencies)
    return Duration(sum(traffic.latencies) / count, traffic.processor / count)


def _rows(costs: Mapping[int, Mapping[str, list[Duration]]]) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for connections, services in costs.items():
        ratio = _ratio(*services.values())
        for (name, rounds), cell in zip(services.items(), (ratio, ""), strict=True):
            cost = rounded(median_seconds(rounds, "processor") * 1e3)
            rows.append((str(connections), name, cost, cell))
    return rows


def _ratio(ours: Sequence[Duration], theirs: Sequence[Duration]) -> str:
    """How many times as much ours computed; a dash where a round was shorter than a tick of that clock."""
    if not all(duration.processor for duration in theirs):
        return "–"
    return str(ratio_of([one.processor / other.processor for one, other in zip(ours, theirs, strict=True)]))


if __name__ == "__main__":
    main()
