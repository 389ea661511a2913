"""⑤ Which KV slots of the pool a sentence may fill while it runs, and which are free.

Shapes: N sentences, K lanes, C positions, S source positions.

A step reads the keys where they lie, without gathering them, and every address is the same in every
step, as CUDA graphs need it. The lanes of a slot are queries of one attention over all that any of
them has written, position by position; a mask leaves each its own lineage. The price is room for the
longest sentence in every slot, and scores that nobody looks at.

Shapes: N slots, K lanes, C positions, S source positions.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from model.decoding.pytorch.batch_state import Network
from model.decoding.sentence import Sentence
from model.errors import DecodingError
from model.network.decoder_state import (
    FIRST_ENTRY,
    NOTHING,
    DecoderState,
    Extent,
    Places,
    PositionTables,
    Span,
)


class FreeEntries:
    """Entries that nobody uses; those given back last are taken first, while they are warm.

    Args:
        first: The first one.
        count: How many there are.
    """

    def __init__(self, first: int, count: int) -> None:
        self._free = list(range(first + count - 1, first - 1, -1))

    def __len__(self) -> int:
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """So many entries.

        Raises:
            DecodingError: If there are fewer; whoever admits sentences keeps to the budget.
        """
        if count > len(self._free):
            raise DecodingError(f"the decoder state has room for {len(self._free)} more, not {count}")
        cut = len(self._free) - count
        taken = self._free[cut:][::-1]
        del self._free[cut:]
        return taken

    def give_back(self, entries: list[int]) -> None:
        """These are free again."""
        self._free += entries


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


class FixedState(DecoderState):
    """A grid that owns its pool: first the lanes' entries of all slots, then their sources'.

    Args:
        network: Whose state it is.
        tables: See PositionTables; as many positions as `capacity`.
        slots: Most sentences.
        lanes: Hypotheses a sentence.
        capacity: Most source positions, and most target positions.
    """

    def __init__(
        self, network: Network, tables: PositionTables, *, slots: int, lanes: int, capacity: int
    ) -> None:
        rows = slots * lanes
        pool = network.new_pool((rows + slots) * capacity)
        super().__init__(pool, tables, slots=slots, lanes=lanes, capacity=capacity, source_capacity=capacity)
        entries = torch.arange(pool.entries, device=pool.device) + FIRST_ENTRY
        pool.clear(entries)  # what a mask hides must still be a number
        self._first_source = FIRST_ENTRY + rows * capacity
        self.own_NKC.copy_(entries[: rows * capacity].view(slots, capacity, lanes).transpose(1, 2))
        self.source_NS.copy_(entries[rows * capacity :].view(slots, capacity))

    def _own(self, extent: Extent) -> Places:
        pitch, length = self.capacity * self.lanes, extent.length * self.lanes
        return Span(FIRST_ENTRY, extent.slots, pitch, length)

    def _own_mask(self, positions_N: Tensor, extent: Extent) -> Tensor:
        """(N, H or 1, K, C·K): what each lane sees of what all of them have written."""
        lineage_NKC = self.lineage_NKC[: extent.slots, :, : extent.length]
        written_NCK = self.own_NKC[: extent.slots, :, : extent.length].transpose(1, 2)
        is_seen_NKCK = lineage_NKC[..., None] == written_NCK[:, None]
        ago_NC = positions_N[:, None] - torch.arange(extent.length, device=positions_N.device)
        bias_NHC = self._distance_bias(ago_NC).repeat_interleave(self.lanes, 2)
        return bias_NHC[:, :, None].masked_fill(~is_seen_NKCK.flatten(2)[:, None], float("-inf"))

    def _source(self, extent: Extent) -> Places:
        return Span(self._first_source, extent.slots, self.capacity, extent.source_length)


class FixedLender:
    """Lends each sentence the entries of its slot; see Lender.

    Args:
        state: Whose entries they are.
    """

    def __init__(self, state: FixedState) -> None:
        self._state = state

    def lend(self, slots: Sequence[int], sentences: Sequence[Sentence]) -> tuple[Tensor, Tensor]:
        """See Lender; there are always enough."""
        first, last = min(slots), max(slots) + 1
        chosen = [slot - first for slot in slots]
        own_NKC, source_NS = self._state.own_NKC[first:last], self._state.source_NS[first:last]
        return own_NKC[chosen], source_NS[chosen]

    def take_back(self, slot: int, sentence: Sentence, *, is_broken: bool) -> None:
        """See Lender; what is not a number must not stay, as masks only hide it by a factor of 0."""
        if is_broken:
            self._state.pool.clear(self._state.own_NKC[slot].flatten())
            self._state.pool.clear(self._state.source_NS[slot])
