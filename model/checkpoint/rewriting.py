"""ⓕ Changing a checkpoint that is there already: in one step, with new checksums, or not at all."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from model.card import ModelCard
from model.checkpoint.manifest import (
    PROVENANCE,
    read_config,
    read_json,
    refusals,
    verify_files,
    write_config,
    write_provenance,
)
from model.whole import written_whole


@contextmanager
def rewritten(folder: Path, noted: Mapping[str, object]) -> Iterator[Path]:
    """Give a copy of a checkpoint to change, and put it in its place when the block ends well.

    What else lies in the folder stays there, and stays unlisted in provenance.json.

    Args:
        folder: A checkpoint; gets a new checksum.
        noted: JSON values for provenance.json, in the place of what it has under these names.

    Raises:
        CheckpointError: If the folder is not sound, or cannot be written; it is as it was then.
    """
    listed = verify_files(folder)
    provenance = {key: value for key, value in read_json(folder / PROVENANCE).items() if key != "files"}
    with refusals(folder), written_whole(folder) as temporary:
        for name in listed:
            shutil.copyfile(folder / name, temporary / name)
        yield temporary
        write_provenance(temporary, {**provenance, **noted})
        _copy_missing(folder, temporary)


def replace_card(folder: Path, card: ModelCard, noted: Mapping[str, object]) -> None:
    """Let a checkpoint say something else about itself; its network stays as it is.

    Args:
        folder: A checkpoint; gets a new checksum.
        card: The new one.
        noted: See `rewritten`.

    Raises:
        CheckpointError: As `rewritten`.
    """
    config, _ = read_config(folder)
    with rewritten(folder, noted) as temporary:
        write_config(temporary, config, card)


def _copy_missing(origin: Path, folder: Path) -> None:
    for path in origin.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, folder / path.name, symlinks=True)
        elif not (folder / path.name).exists():
            shutil.copyfile(path, folder / path.name, follow_symlinks=False)
