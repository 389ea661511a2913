"""How many requests a service answers, how fast, and at what cost: ours, FastAPI with CTranslate2, an echo.

*Nothing decoded* is our service with an engine that answers at once: over the echo, it shows what all but
decoding costs.

python -m benchmarks.serve --shape small --output runs/bench
python -m benchmarks.serve --checkpoint checkpoints
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from math import inf, isnan, nan
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from benchmarks.decode import SEARCHES
from benchmarks.engines import EXACT
from benchmarks.harness.options import Timing, benchmark, counted, device_option, several, timing_options
from benchmarks.harness.report import Row, rounded
from benchmarks.harness.texts import MIXED, SHORT, STEADY, SizedText, word_texts
from benchmarks.harness.timing import median, percentile, ratio_of, take_turns
from benchmarks.load.generator import Client, Load, Seen, run_apart
from benchmarks.services import (
    Service,
    ServiceSpec,
    ctranslate2_service,
    dragoman_service,
    echo_service,
    null_service,
)
from benchmarks.weights import SHAPES, random_checkpoint
from model.checkpoint.exporting.export import export_checkpoint
from model.checkpoint.folder import Checkpoint, load_checkpoint
from model.cli.options import only_checkpoint

_KINDS: Mapping[str, Sequence[int]] = {"steady": STEADY, "mixed": MIXED}
_WARM_UP_SECONDS = 0.5
_METHOD = (
    "All services run at once and take turns under each load, which one process with so many open "
    "connections produces, each with its next request as soon as it has an answer. The cores are shared by "
    "the services, the generator and this command. Latencies are medians of the rounds' percentiles. "
    "*Changed under load*: texts whose translation was not always the one they get alone. *As ours*: those "
    "that the service alone translates as the first of ours does."
)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Texts that are sent in turn, over and over."""

    name: str  # name of the texts
    texts: Sequence[SizedText]
    connections: int  # each with one request at a time
    seconds: float  # how long
    pair: tuple[str, str]  # languages of the texts and of the translations
    decoding: Mapping[str, object]  # options of every request

    def load(self, port: int, *, alone: bool = False) -> Load:
        """Returns the load of a service; `alone` sends each text once, one at a time."""
        source, target = self.pair
        bodies = [
            {
                "q": text.text,
                "source": source,
                "target": target,
                "decoding": {**self.decoding, "max_length": text.max_length},
            }
            for text in self.texts
        ]
        return Load(
            client=Client(port=port),
            bodies=[json.dumps(body, ensure_ascii=False) for body in bodies],
            connections=1 if alone else self.connections,
            seconds=inf if alone else self.seconds,
            warm_up_seconds=0.0 if alone else _WARM_UP_SECONDS,
            most=len(self.texts) if alone else None,
        )


@dataclass(kw_only=True)
class Result:
    """One service under one load."""

    service: str
    texts: str  # name of the texts
    connections: int
    # Of each round: good answers a second, and percentiles of the seconds until them; NaN of no answers
    rate: list[float] = field(default_factory=list)
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    short_p99: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)  # seconds of the service's processor time for each of them
    failed: int = 0  # answers with another status than 200, of all rounds
    # Texts whose translation was not always the one that the service gives them alone
    changed: set[int] = field(default_factory=set)
    agreeing: float = float("nan")  # share of the texts that the service alone translates as ours does

    def add_round(
        self, seen: Seen, load: Workload, alone: Mapping[int, set[str]], cpu_seconds: float
    ) -> float:
        """Note what a round showed, and its processor time, warm-up included; returns its seconds."""
        good = [sample for sample in seen.samples if sample.status == 200]
        latencies = sorted(sample.seconds for sample in good)
        short = sorted(each.seconds for each in good if load.texts[each.which].tokens <= SHORT)
        self.rate.append(len(good) / seen.seconds)
        busy_cores = cpu_seconds / (seen.seconds + _WARM_UP_SECONDS)
        self.cpu.append(busy_cores / self.rate[-1] if good else nan)
        self.p50.append(percentile(latencies, 0.5))
        self.p99.append(percentile(latencies, 0.99))
        self.short_p99.append(percentile(short, 0.99))
        self.failed += len(seen.samples) - len(good)
        self.changed |= changed_answers(alone, translations(seen))
        return seen.seconds

    def row(self) -> Row:
        """A row of the table."""
        return {
            "texts": self.texts,
            "connections": str(self.connections),
            "service": self.service,
            "requests/s": rounded(median(self.rate)),
            "p50, ms": rounded(median(self.p50) * 1e3),
            "p99, ms": rounded(median(self.p99) * 1e3),
            "p99 of short ones, ms": rounded(median(self.short_p99) * 1e3),
            "CPU a request, ms": rounded(median(self.cpu) * 1e3),
            "failed": str(self.failed),
            "changed under load": str(len(self.changed)),
            "as ours": "–" if isnan(self.agreeing) else f"{self.agreeing:.1%}",
        }

    def is_wrong(self, *, is_exact: bool) -> bool:
        """Returns whether ours failed or changed under load, or any differs where all must agree."""
        is_unsteady = bool(self.changed) or self.failed > 0
        return (self.service.startswith("dragoman") and is_unsteady) or (is_exact and self.agreeing < 1)


def compare(ours: Result, theirs: Result) -> Row:
    """Requests a second and latencies: ours divided by theirs, round by round."""

    def ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
        ratios = [a / b if b else float("nan") for a, b in zip(ours, theirs, strict=True)]
        return "–" if any(map(isnan, ratios)) else str(ratio_of(ratios))

    return {
        "requests/s": ratio(ours.rate, theirs.rate),
        "p50": ratio(ours.p50, theirs.p50),
        "p99": ratio(ours.p99, theirs.p99),
        "p99 of short ones": ratio(ours.short_p99, theirs.short_p99),
        "CPU a request": ratio(ours.cpu, theirs.cpu),
    }


def changed_answers(alone: Mapping[int, set[str]], seen: Mapping[int, set[str]]) -> set[int]:
    """Texts with an answer under load that is not the only one they have alone."""
    return {which for which, answers in seen.items() if answers != alone.get(which) or len(answers) != 1}


def translations(seen: Seen) -> dict[int, set[str]]:
    """The different translations of each text."""
    return {
        which: {json.loads(body)["translatedText"] for body in bodies}
        for which, bodies in seen.answers.items()
    }


def measure(services: Sequence[Service], load: Workload, rounds: int) -> list[Result]:
    """Send every text alone, then the load in turns."""
    results = {
        each.spec: Result(service=each.spec.name, texts=load.name, connections=load.connections)
        for each in services
    }
    alone = {each.spec: translations(run_apart(load.load(each.port, alone=True))) for each in services}
    expected = alone[services[0].spec]
    for spec, result in results.items():
        if spec.translates:
            same = sum(alone[spec].get(which) == each for which, each in expected.items())
            result.agreeing = same / len(load.texts)

    def run(service: Service, _round: int) -> float:
        before = service.processor_seconds()
        seen = run_apart(load.load(service.port))
        spent = service.processor_seconds() - before
        return results[service.spec].add_round(seen, load, alone[service.spec], spent)

    take_turns({each.spec: partial(run, each) for each in services}, rounds)
    return list(results.values())


@benchmark
@click.option("--shape", default="small", type=click.Choice(list(SHAPES)), help="A random network.")
@click.option("--checkpoint", type=click.Path(exists=True, path_type=Path), help="Serve this one instead.")
@several("texts", "kinds", tuple(_KINDS), tuple(_KINDS), "Texts of 24 tokens, or of 5 to 120.")
@several("concurrency", "concurrency", None, [1, 8, 32, 64], "Connections.")
@several("workers", "workers", None, [1, 2], "Threads that decode in a service.")
@counted("count", 72, "Different texts.")
@click.option("--seconds", default=4.0, help="How long each load lasts in each round.")
@click.option(
    "--precision",
    default="int8",
    type=click.Choice([EXACT, "bfloat16", "int8"]),
    help="Precision of all services; in float32 their answers must be equal.",
)
@click.option("--search", default="greedy", type=click.Choice(list(SEARCHES)), help="How.")
@device_option
@timing_options
def main(
    shape: str,
    checkpoint: Path | None,
    kinds: Sequence[str],
    concurrency: Sequence[int],
    workers: Sequence[int],
    count: int,
    seconds: float,
    precision: str,
    search: str,
    device: str,
    timing: Timing,
) -> None:
    """Put services under the same loads in turns.

    Exit status 1 if one of ours fails a request or gives a text another translation under load, or if
    in float32 services translate differently.
    """
    how = {"precision": precision, "device": device}
    settings = {"checkpoint": checkpoint or shape, "search": search, "seconds": seconds, **how}
    report = timing.report("serve", settings, workers)
    report.notes.append(_METHOD)
    results: list[Result] = []
    with TemporaryDirectory() as scratch, ExitStack() as running:
        folder = (
            random_checkpoint(Path(scratch) / shape, shape, timing.seed)
            if checkpoint is None
            else only_checkpoint(checkpoint)
        )
        served = load_checkpoint(folder)
        specs = _specs(served, Path(scratch) / "exported", workers, search, **how)
        services = [running.enter_context(Service(spec)) for spec in specs]
        for kind, connections in product(kinds, concurrency):
            load = Workload(
                name=kind,
                texts=word_texts(served.tokenizer, _KINDS[kind], count, timing.seed),
                connections=connections,
                seconds=seconds,
                pair=served.card.pairs[0],
                decoding=SEARCHES[search],
            )
            results += measure(services, load, timing.rounds)
    report.add("Ours divided by theirs", _ratios(results, workers, len(specs)))
    report.add("All services", [each.row() for each in results], results)
    report.deliver(timing.output)
    is_exact = precision == EXACT and search == "greedy"
    if any(each.is_wrong(is_exact=is_exact) for each in results):
        raise click.exceptions.Exit(1)


def _specs(
    served: Checkpoint, exported: Path, workers: Sequence[int], search: str, *, precision: str, device: str
) -> list[ServiceSpec]:
    """Ours and CTranslate2's with each number of workers, then those that decode nothing."""
    export_checkpoint(served, exported, "ctranslate2", precision)
    options, how = served.card.options(SEARCHES[search]), {"precision": precision, "device": device}
    specs: list[ServiceSpec] = []
    for threads in workers:
        specs.append(dragoman_service(served.folder, workers=threads, **how))
        specs.append(ctranslate2_service(exported, workers=threads, search=options, **how))
    return [*specs, null_service(served.folder), echo_service()]


def _ratios(results: Sequence[Result], workers: Sequence[int], num_services: int) -> list[Row]:
    """Returns our speed over CTranslate2's, a row for each load and number of workers."""
    rows: list[Row] = []
    for start in range(0, len(results), num_services):
        found = results[start : start + num_services]
        load = {"texts": found[0].texts, "connections": str(found[0].connections)}
        pairs = zip(workers, found[::2], found[1::2], strict=False)
        rows += [{**load, "workers": str(n), **compare(ours, theirs)} for n, ours, theirs in pairs]
    return rows


if __name__ == "__main__":
    main()
