"""CPU time of a request: without decoding over that of a FastAPI echo, and with it over that of the engine.

Without decoding, our service runs with an engine that answers at once. With it, it runs with a random
network, and the same engine decodes the same sentences without a service.

python -m benchmarks.overhead --checkpoint checkpoints
"""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import click

from benchmarks.decode import SEARCHES
from benchmarks.engines import ENGINES, Engine, Ids
from benchmarks.engines.weights import random_checkpoint
from benchmarks.harness.options import Timing, benchmark, counted, timing_options
from benchmarks.harness.report import Report, rounded
from benchmarks.harness.texts import SENTENCES, STEADY, word_texts
from benchmarks.harness.timing import median, ratio_of, take_turns
from benchmarks.load.generator import Client, Load, run_apart
from benchmarks.serve import Workload
from benchmarks.services import Service, dragoman_service, echo_service, null_service
from model.checkpoint.folder import load_checkpoint
from model.cli.options import only_checkpoint
from model.decode_request import DecodeOptions
from model.training.data.corpus import read_lines

_COUNT = 32
_PRECISION, _WORKERS = "int8", 2


def _job(port: int, connections: int, seconds: float) -> Load:
    """Short sentences, sent without options, as most clients do."""
    texts = [line.split("\t")[0] for line in list(read_lines(SENTENCES))[:_COUNT]]
    bodies = [json.dumps({"q": text, "source": "en", "target": "fr"}) for text in texts]
    return Load(client=Client(port=port), bodies=bodies, connections=connections, seconds=seconds)


def _cost(service: Service, job: Load, _round: int) -> float:
    """Microseconds of the service's processor time for each good answer."""
    before = service.processor_seconds()
    busy = run_apart(job)
    good = sum(each.status == 200 for each in busy.samples)
    return (service.processor_seconds() - before) / max(good, 1) * 1e6


def _engine_cost(
    engine: Engine, sources: Sequence[Ids], options: DecodeOptions, seconds: float, _round: int
) -> float:
    """Microseconds of processor time for each sentence that one thread decodes, as many at a time."""
    count, began, until = 0, process_time(), perf_counter() + seconds
    while not count or perf_counter() < until:
        engine.decode(sources, options, _COUNT // _WORKERS)
        count += len(sources)
    return (process_time() - began) / count * 1e6


@benchmark
@click.option("--checkpoint", required=True, type=click.Path(exists=True, path_type=Path), help="Tokenizer.")
@counted("concurrency", 32, "Connections.")
@click.option("--seconds", default=4.0, help="How long each service is busy in each round.")
@timing_options
def main(checkpoint: Path, concurrency: int, seconds: float, timing: Timing) -> None:
    """Compare the processor time of a request with that of an echo, and with that of the engine alone."""
    settings = {"concurrency": concurrency, "seconds": seconds, **vars(timing)}
    report = Report(timing.name or "overhead", settings, [])
    report.notes.append(timing.note())
    with TemporaryDirectory() as scratch, ExitStack() as running:
        folder = random_checkpoint(Path(scratch) / "small", "small", timing.seed)
        small = load_checkpoint(folder)
        load = Workload(
            name="steady",
            texts=word_texts(small.tokenizer, STEADY, _COUNT, timing.seed),
            concurrency=concurrency,
            seconds=seconds,
            pair=small.card.pairs[0],
            decoding=SEARCHES["greedy"],
        )
        specs = (
            null_service(only_checkpoint(checkpoint)),
            echo_service(),
            dragoman_service(folder, workers=_WORKERS, precision=_PRECISION),
        )
        services = [running.enter_context(Service(each)) for each in specs]
        jobs = [_job(each.port, concurrency, seconds) for each in services[:2]] + [
            # All requests count, because the processor time of all does.
            replace(load.job(services[2].port), warm_up_seconds=0.0)
        ]
        runs = {
            each.spec.name: partial(_cost, each, job) for each, job in zip(services, jobs, strict=True)
        } | {
            "the engine alone": partial(
                _engine_cost,
                ENGINES[f"dragoman-native-{_PRECISION}"].load(folder, 1, "cpu"),
                [
                    tuple(small.tokenizer.encode(each.text, target_language=load.pair[1]))
                    for each in load.texts
                ],
                small.card.options({**load.decoding, "max_length": STEADY[0]}),
                seconds,
            )
        }
        take_turns(runs, 1)
        costs = take_turns(runs, timing.rounds)
    nothing_decoded, echo, decoded, alone = costs.values()
    rows = [{"service": name, "CPU a request, µs": rounded(median(costs[name]))} for name in costs]
    report.add("CPU time of a request", rows, "service", [])
    pairs = {
        "nothing decoded, over the echo": zip(nothing_decoded, echo, strict=True),
        "`small` in int8, over the engine alone": zip(decoded, alone, strict=True),
    }
    ratios = {name: str(ratio_of([a / b for a, b in pair])) for name, pair in pairs.items()}
    report.add("Ratios", [{"CPU a request": name, "ratio": ratio} for name, ratio in ratios.items()])
    report.deliver(timing.output)


if __name__ == "__main__":
    main()
