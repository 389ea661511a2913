"""⑤ A decoder state whose entries lie in rows, each slot's always in the same place.

A step reads the keys where they lie, without gathering them, and every address is the same in every
step, as CUDA graphs need it. The lanes of a slot are queries of one attention over all that any of
them has written, position by position; a mask leaves each its own lineage. The price is room for the
longest sentence in every slot, and scores that nobody looks at.

Shapes: N slots, K lanes, C positions, S source positions.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from model.decoding.pytorch.network import Network
from model.decoding.sentence import Sentence
from model.state import FIRST_ENTRY, DecoderState, Extent, Places, PositionTables, Span


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
