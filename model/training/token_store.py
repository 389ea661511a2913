"""Token id sequences of any number on disk: one flat memory-mapped array, and where each begins."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

TokenArray = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]


def token_dtype(vocab_size: int) -> type[np.uint16] | type[np.uint32]:
    """The narrower of two integer types that holds every id."""
    return np.uint16 if vocab_size <= np.iinfo(np.uint16).max + 1 else np.uint32


class TokenWriter:
    """Appends sequences to `<name>.tokens` and `<name>.lengths`; nothing is kept in memory.

    Args:
        folder: Exists already.
        name: Of the pair of files.
        vocab_size: Chooses two or four bytes an id.
    """

    def __init__(self, folder: Path, name: str, vocab_size: int) -> None:
        self._dtype = token_dtype(vocab_size)
        self._tokens = (folder / f"{name}.tokens").open("wb")
        self._lengths = (folder / f"{name}.lengths").open("wb")

    def append(self, sequences: Sequence[Sequence[int]]) -> None:
        """Write sequences behind those there already."""
        flat = [token for sequence in sequences for token in sequence]
        self._tokens.write(np.asarray(flat, dtype=self._dtype).tobytes())
        self._lengths.write(np.asarray([len(sequence) for sequence in sequences], dtype=np.uint32).tobytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tokens.close()
        self._lengths.close()


class TokenStore:
    """Reads what a TokenWriter wrote.

    Attributes:
        lengths: Tokens of each sequence, shape (sequences,).
    """

    def __init__(self, folder: Path, name: str, vocab_size: int) -> None:
        self.lengths: npt.NDArray[np.int64] = np.fromfile(folder / f"{name}.lengths", dtype=np.uint32).astype(
            np.int64
        )
        self._starts = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(self.lengths)))
        self._tokens: TokenArray = np.memmap(
            folder / f"{name}.tokens", dtype=token_dtype(vocab_size), mode="r"
        )

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> TokenArray:
        """One sequence, a view into the mapped file."""
        return self._tokens[self._starts[index] : self._starts[index + 1]]

    def padded(self, indices: npt.NDArray[np.int64], pad_id: int) -> npt.NDArray[np.int64]:
        """Several sequences, shape (len(indices), longest), filled up with `pad_id`."""
        lengths = self.lengths[indices][:, None]
        offsets = np.arange(lengths.max())[None, :]
        is_token = offsets < lengths
        rows = np.full(is_token.shape, pad_id, dtype=np.int64)
        rows[is_token] = self._tokens[(self._starts[indices][:, None] + offsets)[is_token]]
        return rows
