"""How fast sentences are decoded: our engine beside Hugging Face and CTranslate2, or a checkpoint alone.

python -m benchmarks.decode --output runs/bench
python -m benchmarks.decode --checkpoint checkpoints/NAME --text FILE --target fr
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.engine import Engine
from benchmarks.lineup import DEFAULT_ENGINES, ENGINES, absent, line_up
from benchmarks.machine import load_average, settle
from benchmarks.options import Timing, counted, several, timing_options
from benchmarks.race import COLUMNS, Race, hold
from benchmarks.report import Report
from benchmarks.shapes import SHAPES, endless_network
from benchmarks.work import SEARCHES, Scale, checkpoint_engines, random_races, text_races
from model.cli.grouping import Command, Option, grouped

Heats = Iterator[tuple[Race, list[Engine]]]

_RANDOM_WEIGHTS = (
    "Random weights that all engines share, lengths that never vary. Equal translations prove equal "
    "arithmetic. Rounding to int8 or bfloat16 tips many decisions of such a network, because they are "
    "close: its agreement says nothing of quality."
)


@dataclass(frozen=True, kw_only=True)
class Text:
    """A checkpoint and what it is to translate.

    Attributes:
        checkpoint: Its folder; None for random networks.
        file: A sentence a line.
        target: Language to translate into.
        precision: What to compute in; the first is the reference.
    """

    checkpoint: Path | None
    file: Path | None
    target: str
    precision: Sequence[str]


def _scale_options(command: Command) -> Command:
    options: dict[str, Option] = {
        "searches": several("search", "searches", tuple(SEARCHES), tuple(SEARCHES), "How to decode."),
        "batch_sizes": click.option(
            "--batch-size",
            "batch_sizes",
            multiple=True,
            type=click.IntRange(min=1),
            default=[1, 8, 32],
            show_default=True,
            help="Sentences at a time.",
        ),
        "sentences": counted("sentences", 8, "Of a round; a larger batch means as many as it holds."),
    }
    return grouped(command, options, "scale", Scale)


def _text_options(command: Command) -> Command:
    path = click.Path(exists=True, path_type=Path)
    precisions = ("float32", "bfloat16", "int8")
    options: dict[str, Option] = {
        "checkpoint": click.option("--checkpoint", type=path, help="Measure this one, with no peers."),
        "file": click.option("--text", "file", type=path, help="What it translates, a sentence a line."),
        "target": click.option(
            "--target", default="fr", show_default=True, help="Language it translates into."
        ),
        "precision": several(
            "precision", "precision", precisions, ["float32", "int8"], "What it computes in."
        ),
    }
    return grouped(command, options, "text", Text)


@click.command()
@several("shape", "shapes", tuple(SHAPES), ["small"], "Random networks.")
@several("engine", "engines", tuple(ENGINES), DEFAULT_ENGINES, "Who takes part.")
@counted("tokens", 24, "Length of random sources and of their translations.")
@_scale_options
@_text_options
@timing_options
def main(
    shapes: Sequence[str], engines: Sequence[str], tokens: int, scale: Scale, text: Text, timing: Timing
) -> None:
    """Race decoding engines over the same weights and sentences; translations are compared first.

    Exit status 1 if an engine in float32 gives other translations than ours.
    """
    load_before = load_average()
    machine = settle(timing.threads)
    notes = [timing.note()]
    if text.checkpoint is not None:
        heats = _checkpoint_heats(text.checkpoint, text, scale)
    else:
        notes += [_RANDOM_WEIGHTS, *(f"Left out, not installed: {name}." for name in absent(engines))]
        present = [name for name in engines if name not in absent(engines)]
        heats = _random_heats(shapes, present, scale, tokens, timing)
    places = [place for race, field in heats for place in hold(race, field, timing.rounds, timing.clock)]
    report = Report(
        name="decode",
        machine=machine,
        loads=(load_before, load_average()),
        settings={"tokens": tokens, "scale": scale, "text": text, "timing": timing},
        notes=notes,
        columns=COLUMNS,
        rows=[place.cells(timing.clock) for place in places],
        results=[place.to_dict() for place in places],
    )
    timing.deliver(report)
    if any(place.is_wrong for place in places):
        raise click.exceptions.Exit(1)


def _random_heats(
    shapes: Sequence[str], names: Sequence[str], scale: Scale, tokens: int, timing: Timing
) -> Heats:
    for shape in shapes:
        engines = line_up(endless_network(SHAPES[shape], timing.seed), names, timing.threads)
        for race in random_races(shape, SHAPES[shape], scale, tokens, timing.seed):
            yield race, engines


def _checkpoint_heats(checkpoint: Path, text: Text, scale: Scale) -> Heats:
    if text.file is None:
        raise click.UsageError("--checkpoint needs --text, a file with a sentence a line")
    translator, engines = checkpoint_engines(checkpoint, text.precision)
    lines = text.file.read_text(encoding="utf-8").splitlines()
    for race in text_races(translator, lines, text.target, scale):
        yield race, engines


if __name__ == "__main__":
    main()
