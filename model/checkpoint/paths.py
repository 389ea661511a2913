"""ⓕ Checkpoint folders found by path, and told from the folders of training runs. No torch."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from model.errors import ConfigError

CONFIG = "config.json"
"""What makes a folder a checkpoint."""


def checkpoint_folders(path: Path) -> list[Path]:
    """The checkpoint folders a path stands for, by name: itself, or those directly inside it.

    Hidden ones do not count: a checkpoint that is just being written is one. Nor do folders of training runs.
    """
    if (path / CONFIG).is_file() or not path.is_dir():
        return [path]
    return [folder for folder in _configured(path) if not is_run_folder(folder)]


def run_folders(path: Path) -> list[Path]:
    """The folders of training runs directly inside a path, by name."""
    return [folder for folder in _configured(path) if is_run_folder(folder)]


def is_run_folder(path: Path) -> bool:
    """Whether a training run keeps its configuration there, whose `config.json` is no checkpoint's."""
    config = path / CONFIG
    try:
        # A pipe would be waited for.
        content = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else None
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and "corpora" in content and "format_version" not in content


def good_checkpoint(run: Path) -> Path | None:
    """What to take from a training run: the best checkpoint, else the last; None before the first."""
    places = (run / "checkpoints" / name for name in ("best", "last"))
    return next((place for place in places if place.is_dir()), None)


def _configured(path: Path) -> list[Path]:
    inside = path.iterdir() if path.is_dir() else ()
    # Of a folder that only others may read, such as lost+found, pathlib's is_file would raise.
    return sorted(each for each in inside if not each.name.startswith(".") and os.path.isfile(each / CONFIG))


def served_folders(paths: Iterable[Path]) -> list[Path]:
    """Checkpoint folders as named; a folder that is none stands for those inside it, by name.

    Raises:
        ConfigError: If a path holds no checkpoint.
    """
    folders: list[Path] = []
    for path in paths:
        inside = checkpoint_folders(path) if path.is_dir() else []
        if not inside:
            raise ConfigError(
                "checkpoint", f"a checkpoint folder (with {CONFIG}), or a folder of them", str(path)
            )
        folders.extend(inside)
    return folders
