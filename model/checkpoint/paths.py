"""Finds checkpoint folders by path, and tells them from the folders of training runs. No torch."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from model.checkpoint.importing.formats import recognise
from model.errors import ConfigError

CONFIG = "config.json"
"""The file that makes a folder a checkpoint."""


def checkpoint_folders(path: Path) -> list[Path]:
    """Returns the checkpoint folders of a path, by name: the path itself, or those directly inside it.

    Hidden folders, such as a checkpoint that is being written, and folders of training runs do not count.
    """
    if (path / CONFIG).is_file() or not path.is_dir():
        return [path]
    return [folder for folder in _configured(path) if not is_run_folder(folder)]


def run_folders(path: Path) -> list[Path]:
    """Returns the folders of training runs directly inside a path, by name."""
    return [folder for folder in _configured(path) if is_run_folder(folder)]


def is_run_folder(path: Path) -> bool:
    """Returns whether a folder is that of a training run, whose `config.json` is not a checkpoint's."""
    config = path / CONFIG
    try:
        # Reading a pipe would block.
        content = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else None
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and "corpora" in content and "format_version" not in content


def good_checkpoint(run: Path) -> Path | None:
    """Returns the best checkpoint of a training run, or else the last; None before the first."""
    places = (run / "checkpoints" / name for name in ("best", "last"))
    return next((place for place in places if place.is_dir()), None)


def _configured(path: Path) -> list[Path]:
    inside = path.iterdir() if path.is_dir() else ()
    # pathlib's is_file would raise for a folder that this user may not read, such as lost+found.
    return sorted(each for each in inside if not each.name.startswith(".") and os.path.isfile(each / CONFIG))


def served_folders(paths: Iterable[Path]) -> list[Path]:
    """Returns the checkpoint folders of several paths; see `checkpoint_folders`.

    Raises:
        ConfigError: If a path holds no checkpoint.
    """
    folders: list[Path] = []
    for path in paths:
        inside = checkpoint_folders(path) if path.is_dir() else []
        if not inside:
            foreign = recognise(path)
            advice = f"which `dragoman import` makes of {foreign.title}" if foreign else f"with {CONFIG}"
            raise ConfigError("checkpoint", f"a checkpoint folder ({advice}), or a folder of them", str(path))
        folders.extend(inside)
    return folders
