"""How fast sentences are decoded: our engines, Hugging Face's and CTranslate2's, all with equal weights.

python -m benchmarks.decode --output runs/bench
python -m benchmarks.decode --checkpoint checkpoints --source-file FILE
python -m benchmarks.decode --device cuda --shape base --batch-size 128
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from benchmarks.engines import ENGINES, EXACT, EngineProcess, EngineSpec, Ids, Translations, choose
from benchmarks.harness.options import (
    FILE,
    Timing,
    benchmark,
    counted,
    device_option,
    several,
    timing_options,
)
from benchmarks.harness.report import Row, rounded
from benchmarks.harness.texts import SENTENCES, EncodedText, random_sentences, read_text
from benchmarks.harness.timing import Ratio, median, speed_ratio, take_turns
from benchmarks.weights import SHAPES, random_checkpoint
from model.checkpoint.exporting.export import export_checkpoint
from model.checkpoint.exporting.hugging_face import suitable_architecture
from model.checkpoint.folder import Checkpoint, load_checkpoint
from model.cli.options import only_checkpoint
from model.decode_request import DecodeOptions
from model.errors import ConfigError

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

    plan: Row  # what tells the plan from another
    engine: str
    sentences: int
    same_translations: int  # translations equal to the reference's, token by token
    is_wrong: bool  # whether it computes something else, so that its speed means nothing
    bleu: float | None
    seconds: Sequence[float]  # of each round
    fastest: str  # our engine in the fastest precision
    ratio: Ratio  # how many times as fast that one is

    def row(self) -> Row:
        """A row of the table; an engine that computes something else gets no figures."""
        return {
            **self.plan,
            "engine": self.engine,
            "as the reference": f"{self.same_translations / self.sentences:.1%}",
            "BLEU": "–" if self.bleu is None else f"{self.bleu:.2f}",
            "sentences/s": "–" if self.is_wrong else rounded(self.sentences / median(self.seconds)),
            f"{self.fastest} is … × this": "other translations" if self.is_wrong else str(self.ratio),
        }


def measure(plan: Plan, runners: Sequence[EngineProcess], rounds: int) -> list[Result]:
    """Compare translations, which also warms the engines up, then time the engines in turns.

    The reference is the first of ours in float32, or else the first.
    """

    def run(runner: EngineProcess) -> tuple[Translations, float]:
        return runner.decode(plan.sources, plan.options, plan.batch_size)

    def seconds_of(runner: EngineProcess, _round: int) -> float:
        return run(runner)[1]

    translations = {each.spec.name: run(each)[0] for each in runners}
    timings = take_turns({each.spec.name: partial(seconds_of, each) for each in runners}, rounds)
    specs = [each.spec for each in runners]
    ours = [spec for spec in specs if spec.is_ours]
    reference = next((spec for spec in ours if spec.precision == EXACT), ours[0])
    fastest = min(ours, key=lambda spec: _FASTEST_FIRST.index(spec.precision)).name
    results = []
    for spec in specs:
        produced = translations[spec.name]
        same = sum(map(tuple.__eq__, produced, translations[reference.name]))
        results.append(
            Result(
                plan={
                    "network": plan.network,
                    "search": plan.search,
                    "threads": str(plan.threads),
                    "batch": str(plan.batch_size),
                },
                engine=spec.name,
                sentences=len(plan.sources),
                same_translations=same,
                is_wrong=spec.precision == EXACT and same < plan.least_same * len(plan.sources),
                bleu=plan.score(produced),
                seconds=timings[spec.name],
                fastest=fastest,
                ratio=speed_ratio(timings[fastest], timings[spec.name]),
            )
        )
    return results


def random_plan(shape: str, search: str, threads: int, size: int, count: int, tokens: int, seed: int) -> Plan:
    """Decoding of random sentences, as long as their translations."""
    return Plan(
        network=shape,
        search=search,
        options=DecodeOptions.from_dict({**SEARCHES[search], "max_length": tokens}),
        threads=threads,
        batch_size=size,
        sources=random_sentences(SHAPES[shape], max(count, threads * size), tokens, seed),
        least_same=1.0,
    )


def text_plan(text: EncodedText, search: str, threads: int, size: int) -> Plan:
    """Decoding of a user's sentences.

    Beams end by rules that differ from engine to engine, so that only greedy translations must agree. All
    engines have one length limit, because peers know no limit that depends on the source.
    """
    card = text.checkpoint.card
    return Plan(
        network=f"{card.name} {card.version}",
        search=search,
        options=card.options({**SEARCHES[search], "max_length": card.max_target_length}),
        threads=threads,
        batch_size=size,
        sources=text.sources,
        least_same=_LEAST_SAME_OF_TEXT if search == "greedy" else 0.0,
        score=text.bleu,
    )


def folder_for(spec: EngineSpec, checkpoint: Checkpoint, exports: Path) -> Path:
    """The folder for an engine to load; a peer's is exported into `exports` if it is not there yet.

    Raises:
        ConfigError: If the engine's format cannot hold the network.
    """
    if spec.is_ours:
        return checkpoint.folder
    name = spec.engine
    if name == "hugging-face":
        name = suitable_architecture(checkpoint.config)
    folder = exports / f"{name}-{spec.precision}"
    if not folder.exists():
        export_checkpoint(checkpoint, folder, name, spec.precision)
    return folder


def _start(
    field: Sequence[EngineSpec], folder: Path, exports: Path, threads: int, device: str, running: ExitStack
) -> tuple[list[EngineProcess], list[str]]:
    """Starts the engines that can hold the network; `running` ends them. The notes name the others."""
    checkpoint, runners, notes = load_checkpoint(folder), [], []
    for spec in field:
        try:
            place = folder_for(spec, checkpoint, exports / folder.name)
        except ConfigError as error:
            notes.append(f"Left out: {spec.name} ({error}).")
        else:
            runners.append(running.enter_context(EngineProcess(spec, place, threads, device)))
    return runners, notes


@benchmark
@several("shape", "shapes", tuple(SHAPES), ["small"], "Random networks.")
@several("engine", "engines", tuple(ENGINES), [], "Engines to compare; by default all of the device.")
@several("search", "searches", tuple(SEARCHES), tuple(SEARCHES), "How to decode.")
@several("threads", "threads", None, [1], "Threads of each engine, each on a core of its own.")
@several("batch-size", "batch_sizes", None, [1, 8, 32], "Sentences that a thread decodes at a time.")
@counted("sentences", 8, "Sentences of a round; at least as many as all threads hold.")
@counted("tokens", 24, "Length of random sources and of their translations.")
@click.option("--checkpoint", type=click.Path(exists=True, path_type=Path), help="Measure it on real text.")
@click.option("--source-file", type=FILE, default=SENTENCES, help="Its text; references after a tab.")
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
    target: str,
    device: str,
    timing: Timing,
) -> None:
    """Compare decoding engines on the same weights and sentences; translations are compared first.

    Exit status 1 if an engine in float32 gives other translations than the reference.
    """
    settings = {"tokens": tokens, "sentences": sentences, "checkpoint": checkpoint, "text": source_file}
    field, missing = choose(engines, device)
    report = timing.report("decode", {**settings, "device": device}, threads)
    report.notes += [] if checkpoint else [_RANDOM_WEIGHTS]
    report.notes += [f"Left out, this machine lacks it: {name}." for name in missing]
    work = list(product(searches, batch_sizes))

    def sessions(scratch: Path) -> Iterator[tuple[Path, Sequence[Plan]]]:
        """Plans that the same processes carry out, and the checkpoint that they load."""
        if checkpoint is not None:
            served = load_checkpoint(only_checkpoint(checkpoint))
            text = read_text(served, source_file, target, sentences)
            for count in threads:
                yield served.folder, [text_plan(text, search, count, size) for search, size in work]
            return
        for shape in shapes:
            folder, sizes = random_checkpoint(scratch / shape, shape, timing.seed), (sentences, tokens)
            for count in threads:
                yield folder, [random_plan(shape, s, count, n, *sizes, timing.seed) for s, n in work]

    results: list[Result] = []
    with TemporaryDirectory() as scratch:
        for folder, plans in sessions(Path(scratch)):
            with ExitStack() as running:
                exports, count = Path(scratch) / "exported", plans[0].threads
                runners, notes = _start(field, folder, exports, count, device, running)
                results += [each for plan in plans for each in measure(plan, runners, timing.rounds)]
            report.notes += notes
    report.add("Engines", [each.row() for each in results], results)
    report.deliver(timing.output)
    if any(result.is_wrong for result in results):
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    main()
