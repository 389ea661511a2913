"""ⓕ Finding checkpoint folders by path, before anything of them is read."""

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
