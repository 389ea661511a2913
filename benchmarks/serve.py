"""How many requests a service answers, and how fast: ours, FastAPI with CTranslate2, and an echo.

python -m benchmarks.serve --shape small --output runs/bench
python -m benchmarks.serve --checkpoint checkpoints
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import inf, isnan
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from benchmarks.decode import SEARCHES
from benchmarks.engines import EXACT, OURS
from benchmarks.engines.weights import SHAPES, random_checkpoint
from benchmarks.harness.options import (
    Timing,
    benchmark,
    counted,
    device_option,
    several,
    timing_options,
)
from benchmarks.harness.report import Report, Row, rounded
from benchmarks.harness.texts import MIXED, SHORT, STEADY, SizedText, word_texts
from benchmarks.harness.timing import median, percentile, ratio_of, take_turns
from benchmarks.load.generator import Client, Load, Seen, run_apart
from benchmarks.services import (
    Service,
    ServiceSpec,
    ctranslate2_service,
    dragoman_service,
    echo_service,
)
from model.checkpoint.exporting.export import export_checkpoint
from model.checkpoint.folder import Checkpoint, load_checkpoint
from model.cli.options import only_checkpoint
from model.decoding.factory import torch_factory
from model.translation.translator import Translator

_KINDS: Mapping[str, Sequence[int]] = {"steady": STEADY, "mixed": MIXED}
_WARM_UP_SECONDS = 0.5
_METHOD = (
    "All services run at once and take turns under each load, which one process with so many open "
    "connections produces, each with its next request as soon as it has an answer. The cores are shared by "
    "the services, the generator and this command. Latencies are medians of the rounds' percentiles. "
    "*Changed under load*: texts whose translation was not always the one they get alone. *As the "
    "reference*: those that are translated as by our PyTorch path in float32. *Computing a request*: seconds "
    "of the service's process, not of the time that passes."
)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Texts that are sent in turn, over and over."""

    name: str  # name of the texts
    texts: Sequence[SizedText]
    concurrency: int  # connections, each with one request at a time
    seconds: float  # how long
    pair: tuple[str, str]  # languages of the texts and of the translations
    decoding: Mapping[str, object]  # options of every request

    def job(self, port: int, *, alone: bool = False) -> Load:
        """Returns the job of the generator; `alone` sends each text once, one at a time."""
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
            connections=1 if alone else self.concurrency,
            seconds=inf if alone else self.seconds,
            warm_up_seconds=0.0 if alone else _WARM_UP_SECONDS,
            most=len(self.texts) if alone else None,
        )


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """The results of one round of a workload."""

    requests: int  # good answers
    failures: int  # answers with another status than 200
    rate: float  # good answers a second
    cores: float  # seconds of the service's computing a second
    p50: float  # seconds until good answers; likewise p99
    p99: float
    short_p99: float  # that of short texts; NaN of none


def send(service: Service, load: Workload) -> tuple[Traffic, Seen]:
    """Put a service under load; raises RuntimeError if the generator fails."""
    before = service.processor_seconds()
    busy = run_apart(load.job(service.port))
    computed = service.processor_seconds() - before
    good = sorted((each.seconds, each.which) for each in busy.samples if each.status == 200)
    latencies = [seconds for seconds, _ in good]
    short = [seconds for seconds, which in good if load.texts[which].tokens <= SHORT]
    traffic = Traffic(
        requests=len(good),
        failures=len(busy.samples) - len(good),
        rate=len(good) / busy.seconds,
        cores=computed / (busy.seconds + _WARM_UP_SECONDS),
        p50=percentile(latencies, 0.5),
        p99=percentile(latencies, 0.99),
        short_p99=percentile(short, 0.99),
    )
    return traffic, busy


def translation(body: str) -> str:
    """The translation in an answer; empty if there is none, as in a plain error."""
    try:
        answer = json.loads(body)
    except ValueError:
        return ""
    translated = answer.get("translatedText") if isinstance(answer, dict) else None
    return translated if isinstance(translated, str) else ""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One service under one load, all rounds."""

    service: str
    texts: str  # name of the texts
    concurrency: int
    rounds: Sequence[Traffic]
    changed: int  # texts whose translation was not always the one that the service gives them alone
    agreeing: int  # texts that the service alone translates as the reference does
    expected: int  # texts that have a reference; 0 where answers are no translations

    def median(self, name: str) -> float:
        """The median round of a field of Traffic."""
        return median([getattr(each, name) for each in self.rounds])

    def row(self) -> Row:
        """A row of the table."""
        computing = [each.cores / each.rate if each.rate else float("nan") for each in self.rounds]
        return {
            "texts": self.texts,
            "concurrency": str(self.concurrency),
            "service": self.service,
            "requests/s": rounded(self.median("rate")),
            "p50, ms": rounded(self.median("p50") * 1e3),
            "p99, ms": rounded(self.median("p99") * 1e3),
            "p99 of short ones, ms": rounded(self.median("short_p99") * 1e3),
            "computing a request, ms": rounded(median(computing) * 1e3),
            "cores used": f"{self.median('cores'):.2f}",
            "failed": str(sum(each.failures for each in self.rounds)),
            "changed under load": str(self.changed),
            "as the reference": f"{self.agreeing / self.expected:.1%}" if self.expected else "–",
        }

    def is_wrong(self, *, is_exact: bool) -> bool:
        """Returns whether ours failed or changed under load, or any differs where all must agree."""
        is_unsteady = self.changed > 0 or any(each.failures for each in self.rounds)
        return (self.service.startswith(OURS) and is_unsteady) or (is_exact and self.agreeing < self.expected)


def compare(ours: Result, theirs: Result) -> Row:
    """Requests a second and latencies: ours divided by theirs, round by round."""

    def ratio(name: str) -> str:
        pairs = [
            (getattr(a, name), getattr(b, name)) for a, b in zip(ours.rounds, theirs.rounds, strict=True)
        ]
        ratios = [a / b if b else float("nan") for a, b in pairs]
        return "–" if any(map(isnan, ratios)) else str(ratio_of(ratios))

    names = {"requests/s": "rate", "p50": "p50", "p99": "p99", "p99 of short ones": "short_p99"}
    return {heading: ratio(name) for heading, name in names.items()}


def changed_answers(alone: Mapping[int, set[str]], seen: Mapping[int, set[str]]) -> set[int]:
    """Texts with an answer under load that is not the only one they have alone."""
    return {which for which, answers in seen.items() if answers != alone[which] or len(answers) != 1}


def measure(
    services: Sequence[Service], load: Workload, references: Sequence[str], rounds: int
) -> list[Result]:
    """Send every text alone, then the load in turns."""
    alone = {each.spec: _translations(run_apart(load.job(each.port, alone=True))) for each in services}
    seen: dict[ServiceSpec, list[Traffic]] = {each.spec: [] for each in services}
    changed: dict[ServiceSpec, set[int]] = {each.spec: set() for each in services}

    def run(service: Service, _round: int) -> float:
        traffic, busy = send(service, load)
        seen[service.spec].append(traffic)
        changed[service.spec] |= changed_answers(alone[service.spec], _translations(busy))
        return busy.seconds

    take_turns({each.spec: partial(run, each) for each in services}, rounds)
    return [
        Result(
            service=spec.name,
            texts=load.name,
            concurrency=load.concurrency,
            rounds=seen[spec],
            changed=len(changed[spec]),
            agreeing=sum(answers == {references[which]} for which, answers in alone[spec].items()),
            expected=len(load.texts) if spec.translates else 0,
        )
        for spec in (each.spec for each in services)
    ]


def _translations(busy: Seen) -> dict[int, set[str]]:
    return {which: set(map(translation, bodies)) for which, bodies in busy.answers.items()}


def reference_translations(checkpoint: Checkpoint, load: Workload) -> list[str]:
    """The translation of each of a load's texts by our PyTorch path in float32."""
    translator = Translator.of(checkpoint, torch_factory(checkpoint, "cpu", "float32"))
    translations: dict[int, str] = {}
    for limit in {text.max_length for text in load.texts}:
        chosen = [index for index, text in enumerate(load.texts) if text.max_length == limit]
        translated = translator.translate(
            [load.texts[index].text for index in chosen],
            source=load.pair[0],
            target=load.pair[1],
            options=checkpoint.card.options({**load.decoding, "max_length": limit}),
        )
        translations |= {index: each.text for index, each in zip(chosen, translated, strict=True)}
    return [translations[index] for index in range(len(load.texts))]


@benchmark
@click.option("--shape", default="small", type=click.Choice(list(SHAPES)), help="Network.")
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
    in float32 a service translates otherwise than the reference.
    """
    settings = {
        "checkpoint": checkpoint or shape,
        "search": search,
        "seconds": seconds,
        "precision": precision,
        "device": device,
        **vars(timing),
    }
    report = Report(timing.name or "serve", settings, workers)
    report.notes += [timing.note(), _METHOD]
    with TemporaryDirectory() as scratch, ExitStack() as running:
        folder = (
            random_checkpoint(Path(scratch) / shape, shape, timing.seed)
            if checkpoint is None
            else only_checkpoint(checkpoint)
        )
        served = load_checkpoint(folder)
        specs = _specs(served, Path(scratch) / "exported", workers, search, precision, device)
        services = [running.enter_context(Service(spec)) for spec in specs]
        results: list[Result] = []
        for kind, connections in product(kinds, concurrency):
            load = Workload(
                name=kind,
                texts=word_texts(served.tokenizer, _KINDS[kind], count, timing.seed),
                concurrency=connections,
                seconds=seconds,
                pair=served.card.pairs[0],
                decoding=SEARCHES[search],
            )
            results += measure(services, load, reference_translations(served, load), timing.rounds)
    report.add("Ours divided by theirs", _ratios(results, workers, len(specs)))
    report.add("All services", [each.row() for each in results], "service", results)
    report.deliver(timing.output)
    is_exact = precision == EXACT and search == "greedy"
    if any(each.is_wrong(is_exact=is_exact) for each in results):
        raise click.exceptions.Exit(1)


def _specs(
    served: Checkpoint, exported: Path, workers: Sequence[int], search: str, precision: str, device: str
) -> list[ServiceSpec]:
    """Ours and CTranslate2's with each number of workers, then the echo."""
    export_checkpoint(served, exported, "ctranslate2", precision)
    options, how = served.card.options(SEARCHES[search]), {"precision": precision, "device": device}
    specs: list[ServiceSpec] = []
    for threads in workers:
        specs.append(dragoman_service(served.folder, workers=threads, **how))
        specs.append(ctranslate2_service(exported, workers=threads, search=options, **how))
    return [*specs, echo_service()]


def _ratios(results: Sequence[Result], workers: Sequence[int], num_services: int) -> list[Row]:
    """Returns our speed over CTranslate2's, a row for each load and number of workers."""
    rows: list[Row] = []
    for start in range(0, len(results), num_services):
        found = results[start : start + num_services]
        load = {"texts": found[0].texts, "concurrency": str(found[0].concurrency)}
        pairs = zip(workers, found[::2], found[1::2], strict=False)
        rows += [{**load, "workers": str(n), **compare(ours, theirs)} for n, ours, theirs in pairs]
    return rows


if __name__ == "__main__":
    main()
