"""ⓕ Finding checkpoint folders by path."""

from pathlib import Path

from model.checkpoint.manifest import CONFIG


def checkpoint_folders(path: Path) -> list[Path]:
    """The checkpoint folders a path stands for, by name: itself, or those directly inside it."""
    if (path / CONFIG).is_file() or not path.is_dir():
        return [path]
    inside = (folder for folder in path.iterdir() if not folder.name.startswith("."))
    return sorted(folder for folder in inside if (folder / CONFIG).is_file())
