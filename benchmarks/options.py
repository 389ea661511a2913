"""Options that every benchmark has, and how a report leaves."""

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.lineup import Contestant, line_up
from benchmarks.machine import installed_version
from benchmarks.report import Report
from benchmarks.rounds import Clock
from model.cli.options import Command, Option, grouped
from model.errors import ConfigError, TranslationError

Plot = Callable[[Path], object]

UNFINISHED = 75
"""Exit status where there is more to do: the system's own for `try again later`."""


class Benchmark(click.Command):
    """A command that says in a line what is wrong with what it was given."""

    def invoke(self, ctx: click.Context) -> object:
        """Run it."""
        try:
            return super().invoke(ctx)
        except TranslationError as error:
            raise click.ClickException(str(error)) from error


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How to measure, and where the result goes.

    Attributes:
        rounds: Timed repetitions.
        clock: What speeds and ratios are computed from.
        seed: Of all that is random.
        output: Folder for the report; None only prints it.
        name: Of the report's files; None takes the benchmark's.
    """

    rounds: int
    clock: Clock
    seed: int
    output: Path | None
    name: str | None

    def note(self) -> str:
        """How to read the figures."""
        seconds = {"wall": "Seconds that passed", "processor": "Seconds of computing, all threads together"}
        return (
            f"{seconds[self.clock]}; medians of {self.rounds} rounds in which all take turns, "
            "the lowest and the highest round's ratio in brackets."
        )

    def deliver(self, report: Report, plot: Plot | None = None) -> None:
        """Print the tables, and write the files if a folder was given.

        Args:
            report: What was found.
            plot: Draws it into a file; needs matplotlib, and is left out without it.
        """
        click.echo(report.markdown())
        if self.output is None:
            return
        report.write(self.output)
        written = ".md and .json"
        if plot is not None and installed_version("matplotlib"):
            plot(self.output / f"{report.name}.png")
            written = ".md, .json and .png"
        click.echo(f"Written: {self.output / report.name}{written}", err=True)


def timing_options(command: Command) -> Command:
    """`--rounds`, `--clock`, `--seed`, `--output`, `--name`, as `timing`."""
    options: dict[str, Option] = {
        "rounds": counted("rounds", 5, "Timed repetitions."),
        "clock": click.option(
            "--clock",
            default="wall",
            show_default=True,
            type=click.Choice(["wall", "processor"]),
            help="Seconds that passed, or seconds of computing, which a busy machine stretches less.",
        ),
        "seed": counted("seed", 1, "Of all that is random."),
        "output": click.option(
            "--output",
            type=click.Path(file_okay=False, path_type=Path),
            help="Folder for Markdown, JSON and plot; without it, the tables are only printed.",
        ),
        "name": click.option("--name", help="Of the files in that folder; the benchmark's own by default."),
    }
    return grouped(command, options, "timing", Timing)


def counted(name: str, default: int, text: str) -> Option:
    """An option that takes a number from 1 on."""
    return click.option(
        f"--{name}", default=default, show_default=True, type=click.IntRange(min=1), help=text
    )


def several(flag: str, name: str, choices: Sequence[str], default: Sequence[str], text: str) -> Option:
    """An option that is repeated for each of some names, and the name of its value."""
    return click.option(
        f"--{flag}",
        name,
        multiple=True,
        type=click.Choice(choices),
        default=default,
        show_default=True,
        help=text,
    )


def numbers(flag: str, name: str, default: Sequence[int], text: str) -> Option:
    """An option that is repeated for each of some numbers from 1 on, and the name of its value."""
    return click.option(
        f"--{flag}",
        name,
        multiple=True,
        type=click.IntRange(min=1),
        default=default,
        show_default=True,
        help=text,
    )


def entrants(names: Sequence[str]) -> list[Contestant]:
    """The contestants that an option names and this machine has, ours first; refused in one line."""
    try:
        return line_up(names)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


def show_training_log() -> None:
    """Let a run say on standard error how far it is."""
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
    logging.getLogger("model").setLevel(logging.INFO)
