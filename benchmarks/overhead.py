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
from benchmarks.harness.options import Timing, benchmark, counted, timing_options
from benchmarks.harness.report import Report, rounded
from benchmarks.harness.texts import SENTENCES, STEADY, word_texts
from benchmarks.harness.timing import median, ratio_of, take_turns
from benchmarks.load.generator import Client, Load, run_apart
from benchmarks.serve import Workload
from benchmarks.services import Service, dragoman_service, echo_service, null_service
from benchmarks.weights import random_checkpoint
from model.checkpoint.folder import load_checkpoint
from model.cli.options import only_checkpoint
from model.decode_request import DecodeOptions
from model.training.data.corpus import read_lines

_COUNT = 32
_PRECISION, _WORKERS = "int8", 2


def _cost(service: Service, load: Load, _round: int) -> float:
    """Microseconds of the service's processor time for each good answer."""
    before = service.processor_seconds()
    good = sum(each.status == 200 for each in run_apart(load).samples)
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
    report = Report(timing.name or "overhead", settings)
    report.notes.append(timing.note())
    with TemporaryDirectory() as scratch, ExitStack() as running:
        folder = random_checkpoint(Path(scratch) / "small", "small", timing.seed)
        small = load_checkpoint(folder)
        decoded = Workload(
            name="steady",
            texts=word_texts(small.tokenizer, STEADY, _COUNT, timing.seed),
            connections=concurrency,
            seconds=seconds,
            pair=small.card.pairs[0],
            decoding=SEARCHES["greedy"],
        )
        null, echo, ours = (
            running.enter_context(Service(spec))
            for spec in (
                null_service(only_checkpoint(checkpoint)),
                echo_service(),
                dragoman_service(folder, workers=_WORKERS, precision=_PRECISION),
            )
        )
        # Short sentences, sent without options, as most clients do.
        texts = [line.split("\t")[0] for line in list(read_lines(SENTENCES))[:_COUNT]]
        bodies = [json.dumps({"q": text, "source": "en", "target": "fr"}) for text in texts]
        short = Load(client=Client(port=null.port), bodies=bodies, connections=concurrency, seconds=seconds)
        encode = partial(small.tokenizer.encode, target_language=decoded.pair[1])
        runs = {
            null.spec.name: partial(_cost, null, short),
            echo.spec.name: partial(_cost, echo, replace(short, client=Client(port=echo.port))),
            # All requests count, because the processor time of all does.
            ours.spec.name: partial(_cost, ours, replace(decoded.load(ours.port), warm_up_seconds=0.0)),
            "the engine alone": partial(
                _engine_cost,
                ENGINES[f"dragoman-native-{_PRECISION}"].load(folder, 1, "cpu"),
                [tuple(encode(each.text)) for each in decoded.texts],
                small.card.options({**decoded.decoding, "max_length": STEADY[0]}),
                seconds,
            ),
        }
        take_turns(runs, 1)
        costs = take_turns(runs, timing.rounds)
    rows = [{"service": name, "CPU a request, µs": rounded(median(costs[name]))} for name in costs]
    report.add("CPU time of a request", rows)
    of_null, of_echo, of_ours, of_engine = costs.values()
    pairs = {
        "nothing decoded, over the echo": zip(of_null, of_echo, strict=True),
        "`small` in int8, over the engine alone": zip(of_ours, of_engine, strict=True),
    }
    ratios = {name: str(ratio_of([a / b for a, b in pair])) for name, pair in pairs.items()}
    report.add("Ratios", [{"CPU a request": name, "ratio": ratio} for name, ratio in ratios.items()])
    report.deliver(timing.output)


if __name__ == "__main__":
    main()
