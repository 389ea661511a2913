"""⑤ Folders of the checkpoints to serve. Without torch, so that a wrong path is told at once."""

from collections.abc import Iterable
from pathlib import Path

from model.discovery import checkpoint_folders
from model.errors import ConfigError


def served_folders(paths: Iterable[Path]) -> list[Path]:
    """Checkpoint folders as named; a folder that is none stands for those inside it, by name.

    Raises:
        ConfigError: If a path holds no checkpoint.
    """
    folders: list[Path] = []
    for path in paths:
        inside = checkpoint_folders(path) if path.is_dir() else []
        if not inside:
            raise ConfigError("checkpoint", "a checkpoint folder, or a folder of them", str(path))
        folders.extend(inside)
    return folders
