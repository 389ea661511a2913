"""Options that every benchmark has, and how a report leaves."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.report import Report
from benchmarks.rounds import Clock
from model.cli.grouping import Command, Option, grouped


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How to measure, and where the result goes.

    Attributes:
        rounds: Timed repetitions.
        threads: Numeric threads of each engine.
        clock: What speeds and ratios are computed from.
        seed: Of all that is random.
        output: Folder for the report; None only prints it.
    """

    rounds: int
    threads: int
    clock: Clock
    seed: int
    output: Path | None

    def note(self) -> str:
        """How to read the figures."""
        seconds = {"wall": "Seconds that passed", "processor": "Seconds of computing, all threads together"}
        return (
            f"{seconds[self.clock]}; medians of {self.rounds} rounds in which all take turns, "
            "the lowest and the highest round's ratio in brackets."
        )

    def deliver(self, report: Report) -> None:
        """Print the table, and write the files if a folder was given."""
        click.echo(report.markdown())
        if self.output is not None:
            report.write(self.output)
            click.echo(f"Written: {self.output / report.name}.md and .json", err=True)


def timing_options(command: Command) -> Command:
    """`--rounds`, `--threads`, `--clock`, `--seed`, `--output`, as `timing`."""
    options: dict[str, Option] = {
        "rounds": counted("rounds", 5, "Timed repetitions."),
        "threads": counted("threads", 1, "Numeric threads of each engine."),
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
            help="Folder for the Markdown and the JSON; without it, they are only printed.",
        ),
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
