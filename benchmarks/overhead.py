"""CPU time of a request whose decoding takes no time, over that of a FastAPI echo.

Our service runs with an engine that answers at once.

python -m benchmarks.overhead --checkpoint checkpoints
"""

import json
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import click

from benchmarks.harness.options import Timing, benchmark, counted, deliver, timing_options
from benchmarks.harness.report import Report, rounded
from benchmarks.harness.texts import SENTENCES
from benchmarks.harness.timing import median, ratio_of, take_turns
from benchmarks.load.generator import ClosedLoop, run_closed_loop_apart
from benchmarks.services import Service, echo_service, null_service
from model.cli.options import only_checkpoint
from model.training.data.corpus import read_lines

_COUNT = 32


def _job(port: int, connections: int, seconds: float) -> ClosedLoop:
    """Short sentences, sent without options, as most clients do."""
    texts = [line.split("\t")[0] for line in list(read_lines(SENTENCES))[:_COUNT]]
    bodies = [json.dumps({"q": text, "source": "en", "target": "fr"}) for text in texts]
    return ClosedLoop(port=port, bodies=bodies, concurrency=connections, seconds=seconds)


def _cost(service: Service, connections: int, seconds: float, _round: int) -> float:
    """Microseconds of the service's processor time for each good answer."""
    before = service.processor_seconds()
    busy = run_closed_loop_apart(_job(service.port, connections, seconds))
    good = sum(status == 200 for _, _, status in busy.samples)
    return (service.processor_seconds() - before) / max(good, 1) * 1e6


@benchmark
@click.option("--checkpoint", required=True, type=click.Path(exists=True, path_type=Path), help="Tokenizer.")
@counted("concurrency", 32, "Connections.")
@click.option("--seconds", default=4.0, help="How long each service is busy in each round.")
@timing_options
def main(checkpoint: Path, concurrency: int, seconds: float, timing: Timing) -> None:
    """Compare the processor time of a request with that of a FastAPI echo."""
    settings = {"concurrency": concurrency, "seconds": seconds, **vars(timing)}
    report = Report(timing.name or "overhead", settings, [])
    report.notes.append(timing.note())
    with ExitStack() as running:
        specs = (null_service(only_checkpoint(checkpoint)), echo_service())
        services = {each.name: running.enter_context(Service(each)) for each in specs}
        runs = {name: partial(_cost, each, concurrency, seconds) for name, each in services.items()}
        take_turns(runs, 1)
        costs = take_turns(runs, timing.rounds)
    ours, echo = costs.values()
    rows = [{"service": name, "CPU a request, µs": rounded(median(costs[name]))} for name in costs]
    report.add("CPU time of a request", rows, "service", [])
    ratio = str(ratio_of([a / b for a, b in zip(ours, echo, strict=True)]))
    report.add("Ours over the echo", [{"connections": str(concurrency), "CPU a request": ratio}])
    deliver(report, timing.output)


if __name__ == "__main__":
    main()
