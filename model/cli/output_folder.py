"""`--output FOLDER` of a command that writes a whole folder, and what it may replace."""

import json
from collections.abc import Iterable
from pathlib import Path

import click

from model.cli.main import Misuse
from model.discovery import CONFIG
from model.interchange.formats import DESCRIPTION

output_folder = click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder to write: a new or an empty one, or a checkpoint or an export to replace; not the input.",
)


def require_replaceable(output: Path, inputs: Iterable[Path]) -> None:
    """Let nothing be lost but what is meant to be replaced.

    Args:
        output: Where a command is going to put a whole folder.
        inputs: What the command reads.

    Raises:
        Misuse: If the folder is or holds an input or the working directory, or holds files and is neither a
            checkpoint nor an export.
    """
    place = output.resolve()
    for kept, name in [*((each, str(each)) for each in inputs), (Path.cwd(), "the working directory")]:
        if kept.resolve().is_relative_to(place):
            raise Misuse(f"--output must be another folder than {name}, and not around it, but is {output}")
    if output.is_dir() and any(output.iterdir()) and not _is_ours(output):
        allowed = "a new or an empty folder, a checkpoint or an export"
        raise Misuse(f"--output must be {allowed}, but {output} holds other files")


def _is_ours(folder: Path) -> bool:
    """Whether it is a checkpoint, sound or not, or an export."""
    if (folder / DESCRIPTION).is_file():
        return True
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and "format_version" in config
