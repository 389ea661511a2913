"""ⓕ Finding checkpoint folders by path, and telling them from the folders of training runs."""

import json
from pathlib import Path

CONFIG = "config.json"
"""What makes a folder a checkpoint."""


def checkpoint_folders(path: Path) -> list[Path]:
    """The checkpoint folders a path stands for, by name: itself, or those directly inside it.

    Hidden ones do not count: a checkpoint that is just being written is one.
    """
    if (path / CONFIG).is_file() or not path.is_dir():
        return [path]
    inside = (folder for folder in path.iterdir() if not folder.name.startswith("."))
    return sorted(folder for folder in inside if (folder / CONFIG).is_file())


def is_run_folder(path: Path) -> bool:
    """Whether a training run keeps its configuration there, whose `config.json` is no checkpoint's."""
    try:
        content = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and "corpora" in content and "format_version" not in content
