"""A training file with changes laid over it, for a machine whose data and runs lie elsewhere."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from model.cli.options import Command, Option, grouped
from model.errors import ConfigError
from model.training.config.files import load_train_config, merged, read_config_files
from model.training.config.train_config import LISTS, TrainConfig

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data"
"""Where the files in examples/ expect the corpora."""

Values = dict[str, Any]


def read_changes(files: Sequence[Path], assignments: Sequence[str]) -> Values:
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


def read_recipe(
    file: Path, changes: Mapping[str, Any], *, data: Path | None = None, folder: Path | None = None
) -> TrainConfig:
    """The training file with the changes.

    Args:
        file: As `dragoman train --config` takes it.
        changes: In the shape of such a file.
        data: Where the corpora lie that the file expects in `data/`; None leaves them there.
        folder: Of the run; None takes the file's.

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
            if corpus[name] is not None:
                corpus[name] = _elsewhere(Path(corpus[name]), data)
    return TrainConfig.from_dict(values)


def _elsewhere(path: Path, data: Path) -> str:
    place = path.resolve()
    return str(data / place.relative_to(DATA)) if place.is_relative_to(DATA) else str(path)


def _assigned(assignment: str) -> Values:
    name, equals, value = assignment.partition("=")
    if not equals:
        raise click.UsageError(f"{assignment!r} must be section.name=value")
    try:
        return tomllib.loads(assignment)
    except tomllib.TOMLDecodeError:
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        try:
            return tomllib.loads(f'{name} = "{quoted}"')
        except tomllib.TOMLDecodeError as error:
            raise click.UsageError(f"{assignment!r} must be section.name=value ({error})") from error


def recipe_options(command: Command) -> Command:
    """`--data`, `--with` and `--set` as `data` and `changes`; `--max-minutes`, `--device`, `--output`."""
    folder = click.Path(file_okay=False, path_type=Path)
    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    options: dict[str, Option] = {
        "files": click.option(
            "--with",
            "files",
            type=file,
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
    for option in (
        click.option("--output", type=folder, help="Folder for Markdown and JSON."),
        click.option("--device", default="auto", show_default=True, help="Where to translate."),
        click.option(
            "--max-minutes", type=click.FloatRange(min=0), default=0, help="Begin nothing long after so many."
        ),
        click.option("--data", type=folder, help="Folder with multi30k, tatoeba-en-fr, …; data/ by default."),
    ):
        option(command)
    return grouped(command, options, "changes", read_changes)
