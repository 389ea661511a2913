"""ⓕ shortlist.safetensors: which target tokens a sentence may be translated with, if that is asked for.

The file is optional; it is listed in provenance.json like every other, and checked as they are.
"""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from model.checkpoint.rewriting import rewritten
from model.config import TransformerConfig
from model.errors import CheckpointError, ConfigError
from model.shortlist import Shortlist

SHORTLIST = "shortlist.safetensors"
_ARRAYS = ("always", "offsets", "candidates")


def read_shortlist(folder: Path, config: TransformerConfig) -> Shortlist:
    """Read and check the shortlist of a checkpoint.

    Raises:
        CheckpointError: If the file is not sound, or not of such a network.
    """
    path = folder / SHORTLIST
    try:
        arrays = load_file(path)
        if arrays.keys() != set(_ARRAYS):
            raise CheckpointError(f"{path} must hold {', '.join(_ARRAYS)}, but has {', '.join(arrays)}")
        shortlist = Shortlist(**arrays)
        shortlist.check(config)
    # The last two are what becomes of types that numpy does not have.
    except (SafetensorError, OSError, ValueError, ConfigError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} cannot be used: {' '.join(str(error).split())}") from error
    return shortlist


def add_shortlist(folder: Path, shortlist: Shortlist, origin: Mapping[str, object]) -> None:
    """Give a checkpoint a shortlist, or another one, in one step; its checksum is a new one.

    Args:
        folder: A checkpoint.
        shortlist: Checked already.
        origin: Where it comes from, as JSON values; kept in provenance.json under `shortlist`.

    Raises:
        CheckpointError: If the folder cannot be read or written; it is as it was then.
    """
    with rewritten(folder, {"shortlist": origin}) as temporary:
        arrays = {name: getattr(shortlist, name) for name in _ARRAYS}
        (temporary / SHORTLIST).write_bytes(save(arrays))
