"""Options that every benchmark has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.harness.report import Report
from model.cli.options import Command, Option, grouped
from model.errors import TranslationError

FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class Benchmark(click.Command):
    """A command that reports an unusable input in one line."""

    def invoke(self, ctx: click.Context) -> object:
        """Run it."""
        try:
            return super().invoke(ctx)
        except TranslationError as error:
            raise click.ClickException(str(error)) from error


def benchmark(function: Callable[..., object]) -> click.Command:
    """Make a function a benchmark's command, whose help shows the defaults."""
    return click.command(cls=Benchmark, context_settings={"show_default": True})(function)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Options of a measurement and its report."""

    rounds: int  # timed repetitions
    seed: int  # seed of everything random
    output: Path | None  # folder for the report; None only prints it
    name: str | None  # name of the report's files; None takes the benchmark's

    def report(self, name: str, settings: Mapping[str, object], threads: Sequence[int]) -> Report:
        """Returns the report of a benchmark, which says how to read its figures; see Report."""
        report = Report(self.name or name, {**settings, **vars(self)}, threads)
        report.notes.append(
            f"Medians of {self.rounds} rounds in which all take turns; the lowest and the highest round's "
            "ratio in brackets."
        )
        return report


def timing_options(command: Command) -> Command:
    """`--rounds`, `--seed`, `--output` and `--name`, as `timing`."""
    options: dict[str, Option] = {
        "rounds": counted("rounds", 5, "Timed repetitions."),
        "seed": counted("seed", 1, "Seed of everything random."),
        "output": click.option("--output", type=FOLDER, help="Folder for Markdown and JSON."),
        "name": click.option("--name", help="Name of the files in that folder."),
    }
    return grouped(command, options, "timing", Timing)


def device_option(command: Command) -> Command:
    """`--device`."""
    choice = click.Choice(["cpu", "cuda"])
    return click.option("--device", default="cpu", type=choice, help="Where.")(command)


def counted(flag: str, default: int, text: str) -> Option:
    """An option that takes a number from 1 on."""
    return click.option(f"--{flag}", default=default, type=click.IntRange(min=1), help=text)


def several(flag: str, name: str, choices: Sequence[str] | None, default: Sequence[Any], text: str) -> Option:
    """An option that may be repeated, for each of some names or, without choices, numbers from 1 on."""
    kind = click.Choice(choices) if choices else click.IntRange(min=1)
    return click.option(f"--{flag}", name, multiple=True, type=kind, default=default, help=text)
