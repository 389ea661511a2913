"""⑤ Folders of the checkpoints to serve. Without torch, so that a wrong path is told at once."""

from collections.abc import Iterable
from pathlib import Path

from model.errors import ConfigError


def checkpoint_folders(paths: Iterable[Path]) -> list[Path]:
    """Checkpoint folders as named; a folder that is none stands for those inside it, by name.

    Hidden ones do not count: a checkpoint that is just being written is one.

    Raises:
        ConfigError: If a path holds no checkpoint.
    """
    folders: list[Path] = []
    for path in paths:
        inside = (
            [path]
            if (path / "config.json").is_file()
            else sorted(config.parent for config in path.glob("[!.]*/config.json"))
        )
        if not inside:
            raise ConfigError("checkpoint", "a checkpoint folder, or a folder of them", str(path))
        folders.extend(inside)
    return folders
