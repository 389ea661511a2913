"""ⓓ Token id sequences of any number on disk: one flat memory-mapped array, and where each ends."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

TokenArray = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]
Indices = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.int32]


def token_dtype(vocab_size: int) -> type[np.uint16] | type[np.uint32]:
    """The narrower of two integer types that holds every id."""
    return np.uint16 if vocab_size <= np.iinfo(np.uint16).max + 1 else np.uint32


class Rows(NamedTuple):
    """Some sequences end to end.

    Attributes:
        tokens: Of all of them.
        lengths: Tokens of each.
    """

    tokens: npt.NDArray[np.int64]
    lengths: Lengths

    def padded(self, pad_id: int) -> npt.NDArray[np.int64]:
        """One a row, shape (len(lengths), longest), filled up with `pad_id`."""
        is_token = np.arange(self.lengths.max())[None, :] < self.lengths[:, None]
        padded = np.full(is_token.shape, pad_id, dtype=np.int64)
        padded[is_token] = self.tokens
        return padded


class TokenWriter:
    """Appends sequences to `<name>.tokens` and `<name>.offsets`; keeps none of them in memory.

    Args:
        folder: Exists already.
        name: Of the two files; those there already are overwritten.
        vocab_size: Chooses two or four bytes an id.
    """

    def __init__(self, folder: Path, name: str, vocab_size: int) -> None:
        self._dtype = token_dtype(vocab_size)
        self._tokens = (folder / f"{name}.tokens").open("wb")
        self._offsets = (folder / f"{name}.offsets").open("wb")
        self._offsets.write(np.zeros(1, dtype=np.int64).tobytes())
        self._end = 0

    def append(self, sequences: Sequence[Sequence[int]]) -> None:
        """Write sequences behind those there already."""
        flat = np.fromiter(chain.from_iterable(sequences), dtype=self._dtype)
        ends = self._end + np.cumsum([len(sequence) for sequence in sequences], dtype=np.int64)
        self._tokens.write(flat.tobytes())
        self._offsets.write(ends.tobytes())
        self._end += len(flat)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tokens.close()
        self._offsets.close()


class TokenStore:
    """Reads what a TokenWriter wrote; only the lengths are held in memory.

    Attributes:
        lengths: Tokens of each sequence, shape (sequences,).

    Raises:
        OSError: If a file is missing.
        ValueError: If it is empty or cut short.
    """

    def __init__(self, folder: Path, name: str, vocab_size: int) -> None:
        self._offsets: Indices = np.memmap(folder / f"{name}.offsets", dtype=np.int64, mode="r")
        self._tokens: TokenArray = np.memmap(
            folder / f"{name}.tokens", dtype=token_dtype(vocab_size), mode="r"
        )
        if self._offsets[-1] != len(self._tokens):
            raise ValueError(f"{name}.tokens: {len(self._tokens)} ids, not {self._offsets[-1]}")
        self.lengths: Lengths = np.empty(len(self._offsets) - 1, dtype=np.int32)
        np.subtract(self._offsets[1:], self._offsets[:-1], out=self.lengths, casting="unsafe")

    def __len__(self) -> int:
        return len(self.lengths)

    def rows(self, indices: Indices) -> Rows:
        """Several sequences."""
        lengths = self.lengths[indices]
        ends = np.cumsum(lengths, dtype=np.int64)
        places = np.arange(lengths.sum()) + np.repeat(self._offsets[indices] - (ends - lengths), lengths)
        return Rows(self._tokens[places].astype(np.int64), lengths)
