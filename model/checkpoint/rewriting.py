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
    write_config,
    write_provenance,
)
from model.whole import written_whole


@contextmanager
def rewritten(folder: Path, noted: Mapping[str, object]) -> Iterator[Path]:
    """Give a copy of a checkpoint to change, and put it in its place when the block ends well.

    Args:
        folder: A checkpoint; gets a new checksum.
        noted: JSON values for provenance.json, in the place of what it has under these names.

    Raises:
        CheckpointError: If the folder cannot be read or written; it is as it was then.
    """
    provenance = {key: value for key, value in read_json(folder / PROVENANCE).items() if key != "files"}
    with refusals(folder), written_whole(folder) as temporary:
        for path in folder.iterdir():
            shutil.copyfile(path, temporary / path.name)
        yield temporary
        write_provenance(temporary, {**provenance, **noted})


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
