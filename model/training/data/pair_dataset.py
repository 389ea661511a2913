"""ⓓ The tokenised corpus, opened: directed pairs of token ids in memory-mapped files."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from model.errors import CorpusError
from model.training.data.token_store import Indices, Rows, TokenStore

INDEX_FILE = "index.json"
SECTIONS_FILE = "pairs.sections"
SOURCE, TARGET = "source", "target"
SECTION_DTYPE = np.uint16


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
    """What a folder of tokenised pairs holds: its file `index.json`.

    Attributes:
        fingerprint: Of everything the token ids depend on.
        sections: Each pair belongs to one, by its number.
        source_vocab_size: Ids are below it.
        target_vocab_size: Ids are below it.
        pad_id: Of the tokenizer; pads batches.
        bos_id: Of the tokenizer; begins decoder inputs.
        kept: Undirected pairs that went through cleaning.
        dropped: Those that did not, by reason.
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
        index: Where it comes from, and what was dropped.
        source_lengths: Tokens of each source, shape (pairs,).
        target_lengths: Tokens of each target, shape (pairs,).
    """

    def __init__(self, folder: Path) -> None:
        """Open a folder that `prepare` wrote.

        Raises:
            CorpusError: If it is incomplete.
        """
        try:
            self.index = read_index(folder)
            self._sources = TokenStore(folder, SOURCE, self.index.source_vocab_size)
            self._targets = TokenStore(folder, TARGET, self.index.target_vocab_size)
            self._section_numbers = np.fromfile(folder / SECTIONS_FILE, dtype=SECTION_DTYPE)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CorpusError(f"{folder}: holds no tokenised corpus ({error})") from error
        self.source_lengths = self._sources.lengths
        self.target_lengths = self._targets.lengths

    def __len__(self) -> int:
        return len(self._sources)

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """How often each pair is drawn in an epoch, shape (pairs,)."""
        weights: npt.NDArray[np.float64] = np.array([section.weight for section in self.index.sections])
        return weights[self._section_numbers]

    def source_rows(self, indices: Indices) -> Rows:
        """Several sources."""
        return self._sources.rows(indices)

    def target_rows(self, indices: Indices) -> Rows:
        """Several targets."""
        return self._targets.rows(indices)


def read_index(folder: Path) -> DatasetIndex:
    """The index of a folder, as JSON has it."""
    values = json.loads((folder / INDEX_FILE).read_text(encoding="utf-8"))
    sections = tuple(Section(**section) for section in values.pop("sections"))
    return DatasetIndex(sections=sections, **values)


def write_index(index: DatasetIndex, folder: Path) -> None:
    """Write the index of a folder."""
    text = json.dumps(dataclasses.asdict(index), ensure_ascii=False, indent=2)
    (folder / INDEX_FILE).write_text(text + "\n", encoding="utf-8")
