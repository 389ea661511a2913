"""ⓕ Marian's binary lexical shortlists (`lex.50.50.enpt.s2t.bin`) as shortlists of ours. No torch.

A file has, in little-endian 64-bit integers, a magic number, a checksum, how many of the first target ids are
always candidates, the longest list, and the lengths of two arrays: the offsets (64-bit) of the lists, and the
lists (32-bit target ids), one a source id.
"""

import struct
from pathlib import Path

import numpy as np

from model.checkpoint.importing.foreign import refusal
from model.checkpoint.importing.formats.marian.file import unpacked
from model.checkpoint.shortlist import Shortlist
from model.config import TransformerConfig

_HEADER = struct.Struct("<6Q")
_MAGIC = 0xF11A48D5013417F5
_ROWS_AT_A_TIME = 1024


def is_marian_shortlist(content: bytes) -> bool:
    """Returns whether a file's content begins as a binary shortlist; text shortlists do not."""
    return content[:8] == _MAGIC.to_bytes(8, "little")


def read_marian_shortlist(path: Path, config: TransformerConfig) -> Shortlist | None:
    """Reads a shortlist for a network; None if the file is text.

    Marian adds the source tokens themselves to the candidates if both sides have one vocabulary.

    Raises:
        CheckpointError: If the file is truncated or of another kind, or does not fit the network.
    """
    content = unpacked(path)
    if not is_marian_shortlist(content):
        if not content or b"\0" in content:
            raise refusal(path, "magic number", hex(_MAGIC), content[:8].hex())
        return None
    if len(content) < _HEADER.size:
        raise refusal(path, "size", f"at least {_HEADER.size} bytes", len(content))
    _, _, num_first, _, num_offsets, num_candidates = _HEADER.unpack_from(content)
    size = _HEADER.size + 8 * num_offsets + 4 * num_candidates
    if len(content) != size:
        raise refusal(path, "size", f"the {size} bytes that its header tells", len(content))
    if not 1 < num_offsets <= config.source_vocab_size + 1:
        bounds = f"between 2 and {config.source_vocab_size + 1}"
        raise refusal(path, "number of offsets", bounds, num_offsets)
    offsets = np.frombuffer(content, "<u8", num_offsets, _HEADER.size)
    candidates = np.frombuffer(content, "<u4", num_candidates, _HEADER.size + 8 * num_offsets)
    if offsets[0] or offsets[-1] != num_candidates or (offsets[1:] < offsets[:-1]).any():
        raise refusal(path, "offsets", f"ascending from 0 to {num_candidates}", offsets[[0, -1]].tolist())
    if (candidates >= config.target_vocab_size).any():
        below = f"target ids below {config.target_vocab_size}"
        raise refusal(path, "lists", below, int(candidates.max()))
    return _shortlist(min(num_first, config.target_vocab_size), offsets, candidates, config)


def _shortlist(
    num_first: int, offsets: np.ndarray, candidates: np.ndarray, config: TransformerConfig
) -> Shortlist:
    always = np.union1d(np.arange(num_first), [config.eos_id]).astype(np.int32)
    rows, size = len(offsets) - 1, config.target_vocab_size
    lists: list[np.ndarray] = []
    counts = np.zeros(config.source_vocab_size, np.int64)
    for first in range(0, rows, _ROWS_AT_A_TIME):
        bounds = offsets[first : first + _ROWS_AT_A_TIME + 1].astype(np.int64)
        owners = np.arange(first, first + len(bounds) - 1)
        # One number a pair of source and target id, so that sorting them takes little memory.
        pairs = np.repeat(owners, np.diff(bounds)) * size + candidates[bounds[0] : bounds[-1]]
        if config.tie in ("all", "embeddings"):
            pairs = np.concatenate([pairs, owners * (size + 1)])
        pairs = np.unique(pairs)
        pairs = pairs[~np.isin(pairs % size, always)]
        counts += np.bincount(pairs // size, minlength=len(counts))
        lists.append((pairs % size).astype(np.int32))
    ends = np.concatenate([[0], np.cumsum(counts)])
    return Shortlist(always, ends.astype(np.int32), np.concatenate(lists))
