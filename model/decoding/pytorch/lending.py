"""⑤ Which entries of the pool a sentence may fill while it runs.

Shapes: N sentences, K lanes, C positions, S source positions.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from model.decoding.pytorch.entries import FreeEntries
from model.decoding.sentence import Sentence
from model.state import NOTHING


class Lender(Protocol):
    """Knows what is free."""

    def lend(self, slots: Sequence[int], sentences: Sequence[Sentence]) -> tuple[Tensor, Tensor]:
        """Entries for the lanes of new sentences, (N, K, C), and for their sources, (N, S).

        Raises:
            DecodingError: If there are too few; then none is lent.
        """

    def take_back(self, slot: int, sentence: Sentence, *, is_broken: bool) -> None:
        """A sentence has left its slot; `is_broken` if what it wrote may not be a number."""


class PooledLender:
    """Lends each sentence what it may come to need, wherever that lies.

    Args:
        free: Shared by all grids of a pool.
    """

    def __init__(self, free: FreeEntries) -> None:
        self._free = free
        self._lent: dict[Sentence, list[int]] = {}

    def lend(self, slots: Sequence[int], sentences: Sequence[Sentence]) -> tuple[Tensor, Tensor]:
        """See Lender; NOTHING where a sentence needs less than others."""
        longest = max(s.longest for s in sentences)
        width = max(s.source_length for s in sentences)
        taken = self._free.take(sum(s.positions for s in sentences))
        own, source = [], []
        for sentence in sentences:
            entries, taken = taken[: sentence.positions], taken[sentence.positions :]
            self._lent[sentence] = entries
            cut = sentence.source_length
            source.append([*entries[:cut], *[NOTHING] * (width - cut)])
            lanes = torch.tensor(entries[cut:]).view(sentence.rows, sentence.longest)
            own.append(torch.nn.functional.pad(lanes, (0, longest - sentence.longest), value=NOTHING))
        return torch.stack(own), torch.tensor(source)

    def take_back(self, slot: int, sentence: Sentence, *, is_broken: bool) -> None:
        """See Lender; whoever gets an entry next fills it before it is read."""
        self._free.give_back(self._lent.pop(sentence))
