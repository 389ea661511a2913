"""How many requests a service answers, and how fast: ours beside FastAPI with CTranslate2, and an echo.

python -m benchmarks.serve --shape small --output runs/bench
python -m benchmarks.serve --checkpoint checkpoints --source-file FILE
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from math import isnan
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from benchmarks.decode import SEARCHES
from benchmarks.engines import EXACT, OURS
from benchmarks.engines.weights import SHAPES, random_checkpoint
from benchmarks.harness.options import (
    FILE,
    Timing,
    benchmark,
    counted,
    deliver,
    device_option,
    several,
    timing_options,
)
from benchmarks.harness.report import Plot, Report, Row, rounded
from benchmarks.harness.texts import MIXED, STEADY, SizedText, real_texts, word_texts
from benchmarks.harness.timing import median, percentile, ratio_of
from benchmarks.services import (
    Service,
    ServiceSpec,
    ctranslate2_service,
    dragoman_service,
    echo_service,
    null_service,
)
from benchmarks.services.traffic import Traffic, Workload, send
from model.checkpoint.folder import Checkpoint, load_checkpoint
from model.checkpoint.formats.export import export_checkpoint
from model.cli.options import only_checkpoint
from model.decoding.factory import torch_factory
from model.errors import UnsupportedLanguageError
from model.training.data.corpus import read_lines
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
class Result:
    """One service under one load, all rounds."""

    service: str
    load: Workload
    rounds: Sequence[Traffic]
    changed: int  # texts whose translation was not always the one that the service gives them alone
    agreeing: int  # texts that the service alone translates as the reference does
    expected: int  # texts that have a reference; 0 where answers are no translations

    @property
    def rate(self) -> float:
        """Good answers a second."""
        return median([each.rate for each in self.rounds])

    @property
    def computing(self) -> float:
        """Seconds of the service's computing for a good answer."""
        return median(
            [each.processor_share / each.rate if each.rate else float("nan") for each in self.rounds]
        )

    def latency(self, share: float, *, short: bool = False) -> float:
        """Seconds that this share of the answers took at most."""
        return median([_latency(each, share, short=short) for each in self.rounds])

    def row(self) -> Row:
        """A row of the table."""
        return {
            "texts": self.load.name,
            "concurrency": str(self.load.concurrency),
            "service": self.service,
            "requests/s": rounded(self.rate),
            "p50, ms": rounded(self.latency(0.5) * 1e3),
            "p99, ms": rounded(self.latency(0.99) * 1e3),
            "p99 of short ones, ms": rounded(self.latency(0.99, short=True) * 1e3),
            "computing a request, ms": rounded(self.computing * 1e3),
            "cores used": f"{median([each.processor_share for each in self.rounds]):.2f}",
            "failed": str(sum(each.failures for each in self.rounds)),
            "changed under load": f"{self.changed} of {len(self.load.texts)}",
            "as the reference": f"{self.agreeing / self.expected:.1%}" if self.expected else "–",
        }

    def to_dict(self) -> dict[str, object]:
        """Everything measured except the answers, for JSON."""
        return {
            "texts": self.load.name,
            "concurrency": self.load.concurrency,
            **{name: getattr(self, name) for name in ("service", "changed", "agreeing", "expected")},
            "rounds": [
                {
                    "rate": each.rate,
                    "requests": len(each.latencies),
                    "failures": each.failures,
                    **{f"p{percent}_seconds": _latency(each, percent / 100) for percent in (50, 90, 99)},
                    "short_requests": len(each.short_latencies),
                    "short_p99_seconds": _latency(each, 0.99, short=True),
                    "processor_share": each.processor_share,
                    "generator_share": each.generator_share,
                }
                for each in self.rounds
            ],
        }


def compare(ours: Result, theirs: Result) -> Row:
    """Requests a second and latencies: ours divided by theirs, round by round."""
    pairs = list(zip(ours.rounds, theirs.rounds, strict=True))

    def latency(share: float, *, short: bool = False) -> str:
        return _ratio([_latency(a, share, short=short) / _latency(b, share, short=short) for a, b in pairs])

    return {
        "requests/s": _ratio([a.rate / b.rate if b.rate else float("nan") for a, b in pairs]),
        "p50": latency(0.5),
        "p99": latency(0.99),
        "p99 of short ones": latency(0.99, short=True),
    }


def changed_answers(alone: Mapping[int, frozenset[str]], rounds: Sequence[Traffic]) -> int:
    """Texts with an answer under load that is not the only one they have alone."""
    seen = [(which, answers) for each in rounds for which, answers in each.answers.items()]
    return len({which for which, answers in seen if answers != alone[which] or len(answers) != 1})


def measure(
    services: Sequence[Service], loads: Sequence[Workload], checkpoint: Checkpoint, rounds: int
) -> list[Result]:
    """Send every text alone, then every load in turns."""
    kinds = {load.name: load for load in loads}
    alone = {
        (service.spec.name, name): send(service, load.alone()).answers
        for name, load in kinds.items()
        for service in services
    }
    references = {name: reference_translations(checkpoint, load) for name, load in kinds.items()}
    seen: dict[tuple[str, int], list[Traffic]] = {}
    for current in range(rounds):
        first = current % len(services)
        for index, load in enumerate(loads):
            for service in [*services[first:], *services[:first]]:
                seen.setdefault((service.spec.name, index), []).append(send(service, load))
    results = []
    for index, load in enumerate(loads):
        for spec in (service.spec for service in services):
            first_answers, traffic = alone[spec.name, load.name], seen[spec.name, index]
            agreeing = sum(
                answers == {references[load.name][which]} for which, answers in first_answers.items()
            )
            results.append(
                Result(
                    service=spec.name,
                    load=load,
                    rounds=traffic,
                    changed=changed_answers(first_answers, traffic),
                    agreeing=agreeing,
                    expected=len(load.texts) if spec.translates else 0,
                )
            )
    return results


def reference_translations(checkpoint: Checkpoint, load: Workload) -> list[str]:
    """The translation of each of a load's texts by our PyTorch path in float32."""
    translator = Translator.of(checkpoint, torch_factory(checkpoint, "cpu", "float32"))
    translations: dict[int, str] = {}
    for limit in {text.max_length for text in load.texts}:
        chosen = [index for index, text in enumerate(load.texts) if text.max_length == limit]
        translated = translator.translate(
            [load.texts[index].text for index in chosen],
            source=load.source,
            target=load.target,
            options=checkpoint.card.options({**load.decoding, "max_length": limit}),
        )
        translations |= {index: each.text for index, each in zip(chosen, translated, strict=True)}
    return [translations[index] for index in range(len(load.texts))]


@benchmark
@click.option("--shape", default="small", type=click.Choice(list(SHAPES)), help="Network.")
@click.option("--checkpoint", type=click.Path(exists=True, path_type=Path), help="Serve this one instead.")
@click.option(
    "--source-file",
    type=FILE,
    help="Real texts, a sentence a line, instead of random words; what follows a tab is left out.",
)
@click.option("--target", default="fr", help="Language to translate into.")
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
@click.option(
    "--null-backend", is_flag=True, help="Also ours with an engine that returns the source at once."
)
@device_option
@timing_options
def main(
    shape: str,
    checkpoint: Path | None,
    source_file: Path | None,
    target: str,
    kinds: Sequence[str],
    concurrency: Sequence[int],
    workers: Sequence[int],
    count: int,
    seconds: float,
    precision: str,
    search: str,
    null_backend: bool,
    device: str,
    timing: Timing,
) -> None:
    """Put services under the same loads in turns.

    Exit status 1 if one of ours fails a request or gives a text another translation under load, or if
    in float32 a service translates otherwise than the reference.
    """
    settings = {"checkpoint": checkpoint or shape, "precision": precision, "search": search, "timing": timing}
    report = Report(timing.name or "serve", {**settings, "seconds": seconds, "device": device}, workers)
    report.notes += [timing.note(), _METHOD]
    with TemporaryDirectory() as scratch, ExitStack() as running:
        folder = (
            random_checkpoint(Path(scratch) / shape, shape, timing.seed)
            if checkpoint is None
            else only_checkpoint(checkpoint)
        )
        served, exported = load_checkpoint(folder), Path(scratch) / "exported"
        export_checkpoint(served, exported, "ctranslate2", precision)
        options = served.card.options(SEARCHES[search])
        how = {"precision": precision, "device": device}
        specs: list[ServiceSpec] = []
        for threads in workers:
            specs.append(dragoman_service(folder, workers=threads, **how))
            specs.append(ctranslate2_service(exported, workers=threads, search=options, **how))
        loads = [
            Workload(
                name=kind,
                texts=texts,
                concurrency=connections,
                seconds=seconds,
                warm_up_seconds=_WARM_UP_SECONDS,
                source=source,
                target=target,
                decoding=SEARCHES[search],
            )
            for kind in kinds
            for source, texts in [_texts(served, source_file, target, _KINDS[kind], count, timing.seed)]
            for connections in concurrency
        ]
        specs += [*([null_service(folder)] if null_backend else []), echo_service()]
        services = [running.enter_context(Service(spec)) for spec in specs]
        results = measure(services, loads, served, timing.rounds)
        costs = {service.spec.name: service.footprint() for service in services}
    report.add("Ours divided by theirs", _ratios(results, workers))
    report.add("All services", [each.row() for each in results], "service", [r.to_dict() for r in results])
    report.add(
        "Start and memory",
        [{"service": name, **cost.row()} for name, cost in costs.items()],
        "service footprint",
        [{"service": name, **asdict(cost)} for name, cost in costs.items()],
    )
    report.plot = _plot(results, concurrency)
    deliver(report, timing.output)
    if any(_is_wrong(each, is_exact=precision == EXACT and search == "greedy") for each in results):
        raise click.exceptions.Exit(1)


def _texts(
    checkpoint: Checkpoint, file: Path | None, target: str, lengths: Sequence[int], count: int, seed: int
) -> tuple[str, list[SizedText]]:
    """Source language and texts: lines of a file, or random words."""
    pairs = {each: (source, each) for source, each in reversed(checkpoint.card.pairs)}
    if target not in pairs:
        raise UnsupportedLanguageError("target", target, pairs)
    source = pairs[target][0]
    if file is None:
        return source, word_texts(checkpoint.tokenizer, lengths, count, seed)
    lines = [line.split("\t")[0] for line in read_lines(file)]
    return source, real_texts(checkpoint, lines, pairs[target], lengths, count)


def _is_wrong(result: Result, *, is_exact: bool) -> bool:
    is_ours = result.service.startswith(OURS)
    is_unsteady = is_ours and (result.changed > 0 or any(each.failures for each in result.rounds))
    return is_unsteady or (is_exact and result.agreeing < result.expected)


def _ratios(results: Sequence[Result], workers: Sequence[int]) -> list[Row]:
    """Ours over CTranslate2's, a row a load and a number of workers."""
    by_load: dict[tuple[str, int], list[Result]] = {}
    for each in results:
        by_load.setdefault((each.load.name, each.load.concurrency), []).append(each)
    return [
        {"texts": name, "concurrency": str(connections), "workers": str(threads), **compare(ours, theirs)}
        for (name, connections), found in by_load.items()
        for threads, ours, theirs in zip(workers, found[::2], found[1::2], strict=False)
    ]


def _plot(results: Sequence[Result], concurrency: Sequence[int]) -> Plot:
    panels: dict[str, dict[str, list[float]]] = {}
    for each in results:
        kind = each.load.name
        figures = {f"{kind}: requests/s": each.rate, f"{kind}: p99, ms": each.latency(0.99) * 1e3}
        if kind == "mixed":
            figures["mixed: p99 of short ones, ms"] = each.latency(0.99, short=True) * 1e3
        for quantity, value in figures.items():
            panels.setdefault(quantity, {}).setdefault(each.service, []).append(value)
    return Plot(panels, concurrency, "concurrent requests")


def _latency(traffic: Traffic, share: float, *, short: bool = False) -> float:
    return percentile(traffic.short_latencies if short else traffic.latencies, share)


def _ratio(ratios: Sequence[float]) -> str:
    return "–" if any(map(isnan, ratios)) else str(ratio_of(ratios))


if __name__ == "__main__":
    main()
