"""How fast sentences are decoded: our engines beside Hugging Face and CTranslate2, all with equal weights.

python -m benchmarks.decode --output runs/bench
python -m benchmarks.decode --checkpoint checkpoints --source-file FILE --reference-file FILE
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from benchmarks.heats import FOOTPRINT_COLUMNS, Cost, Heat, hold_heat, random_heats, text_heats
from benchmarks.lineup import CONTESTANTS, absent
from benchmarks.machine import describe_machine, load_average
from benchmarks.options import Benchmark, Timing, counted, entrants, numbers, several, timing_options
from benchmarks.overview import overview
from benchmarks.plots import plot_speed
from benchmarks.race import COLUMNS, Place
from benchmarks.report import Report, Table
from benchmarks.shapes import SHAPES
from benchmarks.stable import Stable
from benchmarks.text import SENTENCES, read_text
from benchmarks.work import SEARCHES, Scale
from model.checkpoint.folder import load_checkpoint
from model.cli.options import Command, Option, grouped, only_checkpoint

_RANDOM_WEIGHTS = (
    "Random weights that all engines share, lengths that never vary. Equal translations prove equal "
    "arithmetic. Rounding to int8 or bfloat16 tips many decisions of such a network, because they are "
    "close: its agreement says nothing of quality."
)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A checkpoint and what it is to translate.

    Attributes:
        checkpoint: Its folder; None for random networks.
        source_file: A sentence a line, or source and reference separated by a tab.
        reference_file: A reference a line.
        target: Language to translate into.
    """

    checkpoint: Path | None
    source_file: Path
    reference_file: Path | None
    target: str


def _scale_options(command: Command) -> Command:
    options: dict[str, Option] = {
        "searches": several("search", "searches", tuple(SEARCHES), tuple(SEARCHES), "How to decode."),
        "threads": numbers("threads", "threads", [1], "Of each engine, each on a core of its own."),
        "batch_sizes": numbers("batch-size", "batch_sizes", [1, 8, 32], "Sentences a thread has at a time."),
        "sentences": counted("sentences", 8, "Of a round; at least as many as all threads hold."),
    }
    return grouped(command, options, "scale", Scale)


def _source_options(command: Command) -> Command:
    path = click.Path(exists=True, path_type=Path)
    options: dict[str, Option] = {
        "checkpoint": click.option("--checkpoint", type=path, help="Measure this one on real text."),
        "source_file": click.option(
            "--source-file",
            type=path,
            default=SENTENCES,
            help="What it translates, a sentence a line; a tab begins the reference. By default a few "
            "everyday sentences, English and French.",
        ),
        "reference_file": click.option("--reference-file", type=path, help="A reference a line, for BLEU."),
        "target": click.option(
            "--target", default="fr", show_default=True, help="Language it translates into."
        ),
    }
    return grouped(command, options, "source", Source)


@click.command(cls=Benchmark)
@several("shape", "shapes", tuple(SHAPES), ["small"], "Random networks.")
@several("engine", "engines", tuple(CONTESTANTS), tuple(CONTESTANTS), "Who takes part.")
@counted("tokens", 24, "Length of random sources and of their translations.")
@_scale_options
@_source_options
@timing_options
def main(
    shapes: Sequence[str], engines: Sequence[str], tokens: int, scale: Scale, source: Source, timing: Timing
) -> None:
    """Race decoding engines over the same weights and sentences; translations are compared first.

    Exit status 1 if an engine in float32 gives other translations than the reference.
    """
    load_before = load_average()
    field = entrants(engines)
    notes = [timing.note(), *([] if source.checkpoint else [_RANDOM_WEIGHTS])]
    notes += [f"Left out, this machine lacks it: {name}." for name in absent(engines)]
    places: list[Place] = []
    costs: list[Cost] = []
    with TemporaryDirectory() as scratch:
        for heat in _heats(shapes, source, tokens, scale, timing, Path(scratch)):
            stable = Stable(heat.folder, Path(scratch) / "exported" / heat.network)
            notes += stable.left_out(field)
            raced, paid = hold_heat(heat, stable, field, timing)
            places += raced
            costs += paid
    report = Report(
        name=timing.name or "decode",
        machine=describe_machine(scale.threads),
        loads=(load_before, load_average()),
        settings={"tokens": tokens, "scale": scale, "source": source, "timing": timing},
        notes=list(dict.fromkeys(notes)),
        tables=[
            overview(places, timing.clock),
            Table(title="All engines", columns=COLUMNS, rows=[place.cells(timing.clock) for place in places]),
            Table(
                title="Start and memory, each engine in a process of its own",
                columns=FOOTPRINT_COLUMNS,
                rows=[cost.cells() for cost in costs],
            ),
        ],
        results=[*(place.to_dict() for place in places), *(cost.to_dict() for cost in costs)],
    )
    timing.deliver(report, lambda path: plot_speed(places, timing.clock, path))
    if any(place.is_wrong for place in places):
        raise click.exceptions.Exit(1)


def _heats(
    shapes: Sequence[str], source: Source, tokens: int, scale: Scale, timing: Timing, scratch: Path
) -> Iterator[Heat]:
    if source.checkpoint is None:
        return random_heats(scratch, shapes, scale, tokens, timing)
    checkpoint = load_checkpoint(only_checkpoint(source.checkpoint))
    text = read_text(checkpoint, source.source_file, source.reference_file, source.target, scale.sentences)
    return text_heats(text, scale)


if __name__ == "__main__":
    main()
