"""How fast sentences are decoded: our engines beside Hugging Face and CTranslate2, all with equal weights.

python -m benchmarks.decode --output runs/bench
python -m benchmarks.decode --checkpoint checkpoints --source-file FILE --reference-file FILE
python -m benchmarks.decode --device cuda --shape base --batch-size 128
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import click

from benchmarks.engines import (
    ENGINES,
    EXACT,
    EngineSpec,
    Ids,
    Translations,
    absent,
    choose,
    opponent_of,
    reference_of,
)
from benchmarks.engines.process import EngineProcess, Footprint
from benchmarks.engines.weights import SHAPES, Weights, random_checkpoint
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
from benchmarks.harness.texts import SENTENCES, EncodedText, random_sentences, read_text
from benchmarks.harness.timing import Clock, Duration, Ratio, median_seconds, speed_ratio, take_turns
from model.checkpoint.folder import load_checkpoint
from model.cli.options import only_checkpoint
from model.request import DecodeOptions

SEARCHES: Mapping[str, Mapping[str, object]] = {
    "greedy": {"strategy": "greedy"},
    "beam-4": {"strategy": "beam", "beam_size": 4},
}
"""Decoding options by name."""

_FASTEST_FIRST = ("int8", "float16", "bfloat16", "float32")
# Sums in another order may tip a near tie of a trained network, once in many sentences.
_LEAST_SAME_OF_TEXT = 0.98
_RANDOM_WEIGHTS = (
    "Random weights that all engines share, lengths that never vary. Equal translations prove equal "
    "arithmetic. Rounding to int8 or bfloat16 tips many decisions of such a network, because they are "
    "close: its agreement says nothing of quality."
)


class Runner(Protocol):
    """An engine that is ready to decode."""

    @property
    def spec(self) -> EngineSpec:
        """Which engine it is."""

    def decode(
        self, sources: Sequence[Ids], options: DecodeOptions, batch_size: int
    ) -> tuple[Translations, Duration]:
        """Translations of the sources, and how long they took."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One piece of work that all engines do."""

    network: str  # what to call it
    search: str  # what to call the options
    options: DecodeOptions  # how to decode
    threads: int  # threads of each engine
    batch_size: int  # sentences that a thread decodes at a time
    sources: Sequence[Ids]  # token ids, the longest first; all are translated once a round
    # Share of its translations that a float32 engine must have in common with the reference; 0 where searches
    # differ by design
    least_same: float
    # BLEU of translations; None where there are no references
    score: Callable[[Translations], float | None] = lambda _translations: None


@dataclass(frozen=True, kw_only=True)
class Result:
    """How one engine carried out one plan."""

    network: str
    search: str
    threads: int
    batch_size: int
    sentences: int
    engine: str
    precision: str
    same_translations: int  # translations equal to the reference's, token by token
    # Translations equal to those of ours in the same precision; None if there is no other
    same_as_ours: int | None
    is_wrong: bool  # whether it computes something else, so that its speed means nothing
    bleu: float | None
    target_tokens: int  # tokens that a round produces
    seconds: Sequence[Duration]  # one duration a round
    opponent: str | None  # ours in the same precision for a peer, the reference for another of ours
    ratio: Ratio | None  # how many times as fast the opponent is

    @property
    def name(self) -> str:
        """Engine and precision."""
        return f"{self.engine}-{self.precision}"

    @property
    def plan(self) -> Row:
        """The cells that tell one plan from another."""
        return {
            "network": self.network,
            "search": self.search,
            "threads": str(self.threads),
            "batch": str(self.batch_size),
        }

    def row(self, clock: Clock) -> Row:
        """A row of the table; an engine that computes something else gets no figures."""
        return {
            **self.plan,
            "engine": self.name,
            "as the reference": f"{self.same_translations / self.sentences:.1%}",
            "as ours": "–" if self.same_as_ours is None else f"{self.same_as_ours / self.sentences:.1%}",
            "BLEU": "–" if self.bleu is None else f"{self.bleu:.2f}",
            "sentences/s": "–" if self.is_wrong else rounded(self.rate(clock)),
            "ours is … × this": "other translations: not comparable"
            if self.is_wrong
            else f"{self.ratio} ({self.opponent})"
            if self.opponent
            else "–",
        }

    def rate(self, clock: Clock) -> float:
        """Sentences a second."""
        return self.sentences / median_seconds(self.seconds, clock)


def measure(plan: Plan, runners: Sequence[Runner], rounds: int, clock: Clock) -> list[Result]:
    """Compare translations, which also warms the engines up, then time the engines in turns."""

    def run(runner: Runner) -> tuple[Translations, Duration]:
        return runner.decode(plan.sources, plan.options, plan.batch_size)

    def timed(runner: Runner, _round: int) -> Duration:
        return run(runner)[1]

    translations = {each.spec.name: run(each)[0] for each in runners}
    timings = take_turns({each.spec.name: partial(timed, each) for each in runners}, rounds)
    field = [each.spec for each in runners]
    reference = translations[reference_of(field).name]
    results = []
    for spec in field:
        produced, durations, opponent = translations[spec.name], timings[spec.name], opponent_of(spec, field)
        same = _equal(produced, reference)
        is_alike = opponent is not None and opponent.precision == spec.precision
        results.append(
            Result(
                **{name: getattr(plan, name) for name in ("network", "search", "threads", "batch_size")},
                sentences=len(plan.sources),
                engine=spec.engine,
                precision=spec.precision,
                same_translations=same,
                same_as_ours=_equal(produced, translations[opponent.name]) if opponent and is_alike else None,
                is_wrong=spec.precision == EXACT and same < plan.least_same * len(plan.sources),
                bleu=plan.score(produced),
                target_tokens=sum(map(len, produced)),
                seconds=durations,
                opponent=opponent.name if opponent else None,
                ratio=speed_ratio(timings[opponent.name], durations, clock) if opponent else None,
            )
        )
    return results


def overview(results: Sequence[Result], clock: Clock) -> tuple[str, list[Row]]:
    """Title and rows of a table: how many times as fast our fastest precision is as every other engine."""
    names = dict.fromkeys(result.name for result in results)
    precisions = {result.name: result.precision for result in results if ENGINES[result.name].is_ours}
    fastest = min(precisions, key=lambda name: _FASTEST_FIRST.index(precisions[name]))
    plans: dict[tuple[str, ...], dict[str, Result]] = {}
    for result in results:
        plans.setdefault(tuple(result.plan.values()), {})[result.name] = result
    rows: list[Row] = []
    for found in plans.values():
        ours = found[fastest]
        ratios = {
            name: "–"
            if (theirs := found.get(name)) is None or theirs.is_wrong
            else str(speed_ratio(ours.seconds, theirs.seconds, clock))
            for name in names
            if name != fastest
        }
        rows.append({**ours.plan, **ratios})
    return f"How many times as fast {fastest} is, median (lowest–highest) of the rounds", rows


def random_plans(
    shape: str, threads: int, work: Sequence[tuple[str, int]], sentences: int, tokens: int, seed: int
) -> list[Plan]:
    """Plans for searches and batch sizes over random sentences, as long as their translations."""
    return [
        Plan(
            network=shape,
            search=search,
            options=DecodeOptions.from_dict({**SEARCHES[search], "max_length": tokens}),
            threads=threads,
            batch_size=size,
            sources=random_sentences(SHAPES[shape], max(sentences, threads * size), tokens, seed),
            least_same=1.0,
        )
        for search, size in work
    ]


def text_plans(text: EncodedText, threads: int, work: Sequence[tuple[str, int]]) -> list[Plan]:
    """Plans for searches and batch sizes over a user's sentences.

    Beams end by rules that differ from engine to engine, so that only greedy translations must agree. All
    engines have one length limit, because peers know no limit that depends on the source.
    """
    card = text.checkpoint.card
    return [
        Plan(
            network=f"{card.name} {card.version}",
            search=search,
            options=card.options({**SEARCHES[search], "max_length": card.max_target_length}),
            threads=threads,
            batch_size=size,
            sources=text.sources,
            least_same=_LEAST_SAME_OF_TEXT if search == "greedy" else 0.0,
            score=text.bleu,
        )
        for search, size in work
    ]


@benchmark
@several("shape", "shapes", tuple(SHAPES), ["small"], "Random networks.")
@several("engine", "engines", tuple(ENGINES), [], "Engines to compare; by default all of the device.")
@several("search", "searches", tuple(SEARCHES), tuple(SEARCHES), "How to decode.")
@several("threads", "threads", None, [1], "Threads of each engine, each on a core of its own.")
@several("batch-size", "batch_sizes", None, [1, 8, 32], "Sentences that a thread decodes at a time.")
@counted("sentences", 8, "Sentences of a round; at least as many as all threads hold.")
@counted("tokens", 24, "Length of random sources and of their translations.")
@click.option("--checkpoint", type=click.Path(exists=True, path_type=Path), help="Measure it on real text.")
@click.option(
    "--source-file",
    type=FILE,
    default=SENTENCES,
    help="What it translates, a sentence a line; a tab begins the reference. By default a few everyday "
    "sentences, English and French.",
)
@click.option("--reference-file", type=FILE, help="A reference a line, for BLEU.")
@click.option("--target", default="fr", help="Language that it translates into.")
@device_option
@timing_options
def main(
    shapes: Sequence[str],
    engines: Sequence[str],
    searches: Sequence[str],
    threads: Sequence[int],
    batch_sizes: Sequence[int],
    sentences: int,
    tokens: int,
    checkpoint: Path | None,
    source_file: Path,
    reference_file: Path | None,
    target: str,
    device: str,
    timing: Timing,
) -> None:
    """Compare decoding engines on the same weights and sentences; translations are compared first.

    Exit status 1 if an engine in float32 gives other translations than the reference.
    """
    settings = {"tokens": tokens, "sentences": sentences, "checkpoint": checkpoint, "text": source_file}
    field = choose(engines, device)
    report = Report(timing.name or "decode", {**settings, "device": device, "timing": timing}, threads)
    report.notes += [timing.note(), *([] if checkpoint else [_RANDOM_WEIGHTS])]
    report.notes += [f"Left out, this machine lacks it: {name}." for name in absent(engines, device)]

    def sessions(scratch: Path) -> Iterator[tuple[Path, Sequence[Plan]]]:
        """Plans that the same processes carry out, and the checkpoint that they load."""
        work = list(product(searches, batch_sizes))
        if checkpoint is not None:
            served = load_checkpoint(only_checkpoint(checkpoint))
            text = read_text(served, source_file, reference_file, target, sentences)
            for count in threads:
                yield served.folder, text_plans(text, count, work)
            return
        for shape in shapes:
            folder = random_checkpoint(scratch / shape, shape, timing.seed)
            for count in threads:
                yield folder, random_plans(shape, count, work, sentences, tokens, timing.seed)

    results: list[Result] = []
    costs: list[tuple[Row, Footprint]] = []
    with TemporaryDirectory() as scratch:
        for folder, plans in sessions(Path(scratch)):
            weights = Weights(folder, Path(scratch) / "exported" / folder.name)
            report.notes += weights.left_out(field)
            found, paid = carry_out(plans, weights, field, device, timing)
            results, costs = [*results, *found], [*costs, *paid]
    report.add(*overview(results, timing.clock))
    report.add("All engines", [each.row(timing.clock) for each in results], "speed", results)
    report.add(
        "Start and memory, each engine in a process of its own",
        [{**engine, **footprint.row()} for engine, footprint in costs],
        "footprint",
        [{**engine, "footprint": asdict(footprint)} for engine, footprint in costs],
    )
    report.plot = _plot(results, timing.clock, batch_sizes)
    deliver(report, timing.output)
    if any(result.is_wrong for result in results):
        raise click.exceptions.Exit(1)


def carry_out(
    plans: Sequence[Plan], weights: Weights, field: Sequence[EngineSpec], device: str, timing: Timing
) -> tuple[list[Result], list[tuple[Row, Footprint]]]:
    """Start the engines that can hold the network, let them take turns at every plan, and end them.

    Returns:
        How the engines did, and what each cost besides time.
    """
    first = plans[0]
    with ExitStack() as running:
        processes = [
            running.enter_context(EngineProcess(spec, folder, first.threads, device))
            for spec in field
            if (folder := weights.folder_of(spec)) is not None
        ]
        results = [each for plan in plans for each in measure(plan, processes, timing.rounds, timing.clock)]
        costs: list[tuple[Row, Footprint]] = [
            (
                {"network": first.network, "threads": str(first.threads), "engine": each.spec.name},
                each.footprint(),
            )
            for each in processes
        ]
    return results, costs


def _plot(results: Sequence[Result], clock: Clock, batch_sizes: Sequence[int]) -> Plot:
    """Sentences a second against the batch size, a panel for each network, search and number of threads."""
    panels: dict[str, dict[str, list[float]]] = {}
    for each in results:
        panel = f"{each.network}, {each.search}, threads: {each.threads}; sentences/s"
        rate = float("nan") if each.is_wrong else each.rate(clock)
        panels.setdefault(panel, {}).setdefault(each.name, []).append(rate)
    return Plot(panels, batch_sizes, "sentences at a time")


def _equal(produced: Translations, expected: Translations) -> int:
    return sum(a == b for a, b in zip(produced, expected, strict=True))


if __name__ == "__main__":
    main()
