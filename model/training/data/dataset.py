"""Directed pairs of token ids in memory-mapped files."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from model.errors import CorpusError

TokenArray = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]
Indices = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.int32]

INDEX_FILE = "index.json"
SECTIONS_FILE = "pairs.sections"
SECTION_DTYPE = np.uint16


def token_dtype(vocab_size: int) -> type[np.uint16] | type[np.uint32]:
    """The narrowest integer type for the ids of a vocabulary."""
    return np.uint16 if vocab_size <= np.iinfo(np.uint16).max + 1 else np.uint32


class Rows(NamedTuple):
    """Concatenated sequences.

    Attributes:
        tokens: Tokens of all sequences.
        lengths: Tokens of each sequence.
    """

    tokens: npt.NDArray[np.int64]
    lengths: Lengths

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> Self:
        """The sequences as rows."""
        tokens = np.fromiter(chain.from_iterable(sequences), dtype=np.int64)
        return cls(tokens, np.fromiter(map(len, sequences), dtype=np.int32, count=len(sequences)))

    def padded(self, pad_id: int) -> npt.NDArray[np.int64]:
        """The sequences as rows, padded with `pad_id`, shape (len(lengths), longest)."""
        is_token = np.arange(self.lengths.max())[None, :] < self.lengths[:, None]
        padded = np.full(is_token.shape, pad_id, dtype=np.int64)
        padded[is_token] = self.tokens
        return padded


class TokenWriter:
    """Appends sequences to `<name>.tokens` and `<name>.offsets`, without keeping them in memory.

    Args:
        folder: An existing folder.
        name: Name of the two files, which are overwritten.
        vocab_size: Chooses two or four bytes per id.
    """

    def __init__(self, folder: Path, name: str, vocab_size: int) -> None:
        self._dtype = token_dtype(vocab_size)
        self._tokens = (folder / f"{name}.tokens").open("wb")
        self._offsets = (folder / f"{name}.offsets").open("wb")
        self._offsets.write(np.zeros(1, dtype=np.int64).tobytes())
        self._end = 0

    def append(self, rows: Rows) -> None:
        """Append sequences."""
        self._tokens.write(rows.tokens.astype(self._dtype).tobytes())
        self._offsets.write((self._end + np.cumsum(rows.lengths, dtype=np.int64)).tobytes())
        self._end += len(rows.tokens)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tokens.close()
        self._offsets.close()


class TokenStore:
    """Reads what a TokenWriter wrote; only the lengths are in memory.

    Attributes:
        lengths: Tokens of each sequence, shape (sequences,).

    Raises:
        OSError: If a file is missing.
        ValueError: If a file is truncated.
    """

    def __init__(self, folder: Path, name: str, vocab_size: int) -> None:
        self._offsets: Indices = np.memmap(folder / f"{name}.offsets", dtype=np.int64, mode="r")
        tokens = folder / f"{name}.tokens"
        self._tokens: TokenArray = np.empty(0, np.uint16)  # an empty file cannot be mapped
        if tokens.stat().st_size:
            self._tokens = np.memmap(tokens, token_dtype(vocab_size), mode="r")
        if self._offsets[-1] != len(self._tokens):
            raise ValueError(f"{name}.tokens: {len(self._tokens)} ids, not {self._offsets[-1]}")
        self.lengths: Lengths = np.empty(len(self._offsets) - 1, dtype=np.int32)
        np.subtract(self._offsets[1:], self._offsets[:-1], out=self.lengths, casting="unsafe")

    def __len__(self) -> int:
        return len(self.lengths)

    def rows(self, indices: Indices) -> Rows:
        """The sequences with these indices."""
        lengths = self.lengths[indices]
        ends = np.cumsum(lengths, dtype=np.int64)
        places = np.arange(lengths.sum()) + np.repeat(self._offsets[indices] - (ends - lengths), lengths)
        return Rows(self._tokens[places].astype(np.int64), lengths)


SOURCE, TARGET = "source", "target"


@dataclass(frozen=True, kw_only=True)
class Section:
    """The pairs of one corpus in one direction.

    Attributes:
        source_language: Code.
        target_language: Code.
        weight: How often each pair is drawn in an epoch.
    """

    source_language: str
    target_language: str
    weight: float


@dataclass(frozen=True, kw_only=True)
class DatasetIndex:
    """The file `index.json` of a folder of tokenised pairs.

    Attributes:
        fingerprint: Checksum of everything that the token ids depend on.
        sections: Each pair belongs to a section by its number.
        source_vocab_size: Exclusive bound of source ids.
        target_vocab_size: Exclusive bound of target ids.
        pad_id: The tokenizer's; pads batches.
        bos_id: The tokenizer's; begins decoder inputs.
        kept: Undirected pairs that cleaning kept.
        dropped: Undirected pairs that cleaning dropped, by reason.
        augmented: Altered copies of directed pairs, by kind.
    """

    fingerprint: str
    sections: tuple[Section, ...]
    source_vocab_size: int
    target_vocab_size: int
    pad_id: int
    bos_id: int
    kept: int
    dropped: dict[str, int]
    augmented: dict[str, int] = field(default_factory=dict)


class PairDataset:
    """Directed pairs: source is [tag], pieces, EOS; target is pieces, EOS.

    Attributes:
        index: Origin of the pairs, and what was dropped.
        sources: The sources.
        targets: The targets.
    """

    def __init__(self, folder: Path) -> None:
        """Open a folder that `prepare` wrote.

        Raises:
            CorpusError: If the folder is incomplete.
        """
        try:
            self.index = read_index(folder)
            self.sources = TokenStore(folder, SOURCE, self.index.source_vocab_size)
            self.targets = TokenStore(folder, TARGET, self.index.target_vocab_size)
            self._section_numbers = np.fromfile(folder / SECTIONS_FILE, dtype=SECTION_DTYPE)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CorpusError(f"{folder}: holds no tokenised corpus ({error})") from error

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """Draws of each pair in an epoch, shape (pairs,)."""
        weights: npt.NDArray[np.float64] = np.array([section.weight for section in self.index.sections])
        return weights[self._section_numbers]


def read_index(folder: Path) -> DatasetIndex:
    """Read the index of a folder."""
    values = json.loads((folder / INDEX_FILE).read_text(encoding="utf-8"))
    sections = tuple(Section(**section) for section in values.pop("sections"))
    return DatasetIndex(sections=sections, **values)


def write_index(index: DatasetIndex, folder: Path) -> None:
    """Write the index of a folder."""
    text = json.dumps(dataclasses.asdict(index), ensure_ascii=False, indent=2)
    (folder / INDEX_FILE).write_text(text + "\n", encoding="utf-8")
