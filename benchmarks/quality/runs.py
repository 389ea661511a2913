"""Training runs for the quality benchmarks: recipes with changes, trained in calls of limited time."""

import json
import logging
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from benchmarks.harness.options import FILE, FOLDER
from model.cli.options import Command, Option, grouped
from model.errors import ConfigError
from model.files import write_text_atomically
from model.training.config.files import load_train_config, merged, read_config_files
from model.training.config.train_config import LISTS, TrainConfig
from model.training.device import tuned_cpu
from model.training.report.report import report_if_possible
from model.training.run import open_run
from model.training.run_folder.folder import RunFolder
from model.training.run_folder.resume_checks import require_unchanged

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data"
"""Where the files in examples/ expect the corpora."""
UNFINISHED = 75
"""Exit status where there is more to do: the system's own for `try again later`."""
_ENDED = "ended.json"
_LIMITS = ("max_steps", "max_minutes", "max_epochs")


def read_changes(files: Sequence[Path], assignments: Sequence[str]) -> dict[str, Any]:
    """Changes to a training file, the later ones laid over the earlier ones.

    Args:
        files: TOML files with some sections of a training file; paths are relative to each.
        assignments: `section.name=value`, the value in TOML's syntax; a bare word is text.

    Raises:
        click.UsageError: If one of them cannot be read.
    """
    try:
        changes = read_config_files(files)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    for assignment in assignments:
        changes = merged(changes, _assigned(assignment))
    return changes


def _assigned(assignment: str) -> dict[str, Any]:
    name, equals, value = assignment.partition("=")
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    for text in (assignment, f'{name} = "{quoted}"') if equals else ():
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            continue
    raise click.UsageError(f"{assignment!r} must be section.name=value")


def read_recipe(
    file: Path, changes: Mapping[str, Any], *, data: Path | None = None, folder: Path | None = None
) -> TrainConfig:
    """A training file with changes.

    Args:
        file: As `dragoman train --config` takes it.
        changes: In the shape of such a file.
        data: Where the corpora are that the file expects in `data/`; None leaves them there.
        folder: Folder of the run; None takes the file's.

    Raises:
        ConfigError: If the configuration cannot work.
    """
    if folder is not None:
        changes = merged(changes, {"run": {"folder": str(folder)}})
    config = load_train_config([file], changes)
    if data is None:
        return config
    values = config.to_dict()
    for corpus in (corpus for name in LISTS for corpus in values[name]):
        for name in ("path", "target_path"):
            place = Path(corpus[name] or "").resolve()
            if corpus[name] is not None and place.is_relative_to(DATA):
                corpus[name] = str(data / place.relative_to(DATA))
    return TrainConfig.from_dict(values)


def recipe_options(command: Command) -> Command:
    """`--data`, `--with` and `--set` as `data` and `changes`; `--max-minutes`, `--device`, `--output`."""
    options: dict[str, Option] = {
        "files": click.option(
            "--with",
            "files",
            type=FILE,
            multiple=True,
            help="TOML file whose sections are laid over the recipe's; may be repeated.",
        ),
        "assignments": click.option(
            "--set",
            "assignments",
            metavar="SECTION.NAME=VALUE",
            multiple=True,
            help="One value; may be repeated.",
        ),
    }
    minutes = click.FloatRange(min=0)
    for option in (
        click.option("--output", type=FOLDER, help="Folder for Markdown and JSON."),
        click.option("--device", default="auto", help="Where to translate."),
        click.option("--max-minutes", type=minutes, default=0, help="Begin nothing long after this time."),
        click.option("--data", type=FOLDER, help="Folder with multi30k, tatoeba-en-fr, …; data/ by default."),
    ):
        option(command)
    return grouped(command, options, "changes", read_changes)


@dataclass(frozen=True)
class Deadline:
    """A moment of the monotonic clock, in seconds, after which nothing long is begun."""

    moment: float

    @classmethod
    def after(cls, minutes: float) -> "Deadline":
        """That many minutes from now; 0 is no deadline."""
        return cls(time.monotonic() + minutes * 60 if minutes else float("inf"))

    @property
    def is_past(self) -> bool:
        """Whether it has come."""
        return time.monotonic() >= self.moment


@dataclass(frozen=True)
class Ending:
    """How a run ended: by which limit or early stopping, and updates, minutes and tokens over all calls."""

    reason: str
    step: int
    minutes: float
    tokens: int


def train(config: TrainConfig, deadline: Deadline) -> Ending | None:
    """Begin or continue a run, until it ends or the deadline comes; None if there is more to do.

    The ending is kept in the run's folder, so that a later call loads nothing, unless the run's limits are
    others by then.

    Raises:
        TranslationError: As open_run; and if the run has ended, but under another configuration.
    """
    folder = RunFolder(Path(config.run.folder))
    note = folder.root / _ENDED
    limits = {name: getattr(config.run, name) for name in _LIMITS} | {"patience": config.validation.patience}
    if note.exists():
        written = json.loads(note.read_text(encoding="utf-8"))
        if written["limits"] == limits:
            require_unchanged(folder, config)
            return Ending(**written["ending"])
    # A report takes time that a call may not have; it is made once, at the end.
    quiet = replace(config, run=replace(config.run, plots=False))
    with tuned_cpu(config.run.threads):
        run = open_run(
            quiet, resume=True, hook=lambda *_: run.trainer.interrupt() if deadline.is_past else None
        )
        reason = run.run()
    if reason == "interrupted":
        return None
    if config.run.plots:
        report_if_possible(run.folder)
    position = run.trainer.position
    ending = Ending(reason, position.step, position.seconds / 60, position.tokens)
    write_text_atomically(note, json.dumps({"limits": limits, "ending": vars(ending)}, indent=1) + "\n")
    return ending


def show_training_log() -> None:
    """Log a run's progress on standard error."""
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
    logging.getLogger("model").setLevel(logging.INFO)
