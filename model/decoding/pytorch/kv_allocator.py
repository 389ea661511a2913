"""⑤ Which KV slots of the pool a sentence may fill while it runs, and which are free.

`PooledAllocator` allocates what each sentence may need, anywhere in a shared pool.

`FixedDecoderState` owns its pool and gives every slot of the batch its own region, so that a step reads
keys where they are, without gathering them, and every address is the same in every step, as CUDA graphs
need it. The hypotheses of a slot are then queries of one attention over all that any of them has written,
position by position; a mask leaves each hypothesis its own block table. The price is memory for the
longest sentence in every slot, and scores that are computed and masked.

Shapes: N slots, K hypotheses, C positions, S source positions.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from model.decoding.pytorch.batch_state import Network
from model.decoding.sentence import Sentence
from model.errors import DecodingError
from model.network.decoder_state import (
    FIRST_KV_SLOT,
    ZERO_KV_SLOT,
    DecoderState,
    KvIndex,
    PositionTables,
    StepShape,
    Strided,
)


class FreeKvSlots:
    """Unused KV slots; the last ones given back are taken first, while they are in the caches.

    Args:
        first: The first KV slot.
        count: How many there are.
    """

    def __init__(self, first: int, count: int) -> None:
        self._free = list(range(first + count - 1, first - 1, -1))

    def __len__(self) -> int:
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """Take `count` KV slots.

        Raises:
            DecodingError: If fewer are free; the engine admits sentences only within the budget.
        """
        if count > len(self._free):
            raise DecodingError(f"the decoder state can take {len(self._free)} more KV slots, not {count}")
        cut = len(self._free) - count
        taken = self._free[cut:][::-1]
        del self._free[cut:]
        return taken

    def give_back(self, kv_slots: list[int]) -> None:
        """Mark these KV slots as free."""
        self._free += kv_slots


class KvAllocator(Protocol):
    """Allocates KV slots to sentences."""

    def allocate(self, slots: Sequence[int], sentences: Sequence[Sentence]) -> tuple[Tensor, Tensor]:
        """KV slots for the hypotheses of new sentences, (N, K, C), and for their sources, (N, S).

        Raises:
            DecodingError: If too few are free; then none is allocated.
        """

    def free(self, slot: int, sentence: Sentence, *, is_broken: bool) -> None:
        """Free the KV slots of a sentence that has left its slot.

        Args:
            slot: The slot of the batch.
            sentence: The sentence that left it.
            is_broken: Whether it may have written NaN or infinity.
        """


class PooledAllocator:
    """Allocates to each sentence what it may need, anywhere in the pool.

    Args:
        free: Shared by all batches of a pool.
    """

    def __init__(self, free: FreeKvSlots) -> None:
        self._free = free
        self._allocated: dict[Sentence, list[int]] = {}

    def allocate(self, slots: Sequence[int], sentences: Sequence[Sentence]) -> tuple[Tensor, Tensor]:
        """See KvAllocator; ZERO_KV_SLOT where a sentence needs less than others."""
        longest = max(s.longest for s in sentences)
        source_length = max(s.source_length for s in sentences)
        taken = self._free.take(sum(s.positions for s in sentences))
        target, source = [], []
        for sentence in sentences:
            own, taken = taken[: sentence.positions], taken[sentence.positions :]
            self._allocated[sentence] = own
            cut = sentence.source_length
            source.append([*own[:cut], *[ZERO_KV_SLOT] * (source_length - cut)])
            rows_KC = torch.tensor(own[cut:]).view(sentence.rows, sentence.longest)
            padding = (0, longest - sentence.longest)
            target.append(torch.nn.functional.pad(rows_KC, padding, value=ZERO_KV_SLOT))
        return torch.stack(target), torch.tensor(source)

    def free(self, slot: int, sentence: Sentence, *, is_broken: bool) -> None:
        """See KvAllocator; the next user of a KV slot fills it before it is read."""
        self._free.give_back(self._allocated.pop(sentence))


class FixedDecoderState(DecoderState):
    """A decoder state with its own pool: first the hypotheses of all slots, then their sources.

    Args:
        network: The network that the state belongs to.
        tables: See PositionTables; as many positions as `capacity`.
        slots: Most sentences.
        width: Hypotheses of each sentence.
        capacity: Most source positions, and most target positions.
        is_fused: See DecoderState.
    """

    def __init__(
        self,
        network: Network,
        tables: PositionTables,
        *,
        slots: int,
        width: int,
        capacity: int,
        is_fused: bool = False,
    ) -> None:
        rows = slots * width
        pool = network.new_pool((rows + slots) * capacity)
        sizes = {"slots": slots, "width": width, "capacity": capacity, "source_capacity": capacity}
        super().__init__(pool, tables, **sizes, is_fused=is_fused)
        kv_slots_E = torch.arange(pool.num_kv_slots, device=pool.device) + FIRST_KV_SLOT
        pool.clear(kv_slots_E)  # masked values are multiplied by 0, so they must be finite
        self._first_source = FIRST_KV_SLOT + rows * capacity
        targets_NCK = kv_slots_E[: rows * capacity].view(slots, capacity, width)
        self.target_kv_NKC.copy_(targets_NCK.transpose(1, 2))
        self.source_kv_NS.copy_(kv_slots_E[rows * capacity :].view(slots, capacity))

    def target_index(self, shape: StepShape) -> KvIndex:
        """See DecoderState."""
        pitch, length = self.capacity * self.width, shape.length * self.width
        return Strided(FIRST_KV_SLOT, shape.slots, pitch, length)

    def target_mask(self, positions_N: Tensor, shape: StepShape) -> Tensor:
        """(N, H or 1, K, C·K): what each hypothesis sees of what all of its slot have written."""
        block_table_NKC = self.block_table_NKC[: shape.slots, :, : shape.length]
        written_NCK = self.target_kv_NKC[: shape.slots, :, : shape.length].transpose(1, 2)
        is_seen_NKCK = block_table_NKC[..., None] == written_NCK[:, None]
        ago_NC = positions_N[:, None] - torch.arange(shape.length, device=positions_N.device)
        bias_NHC = self._distance_bias(ago_NC).repeat_interleave(self.width, 2)
        return bias_NHC[:, :, None].masked_fill(~is_seen_NKCK.flatten(2)[:, None], float("-inf"))

    def target_distances(self, positions_N: Tensor, shape: StepShape) -> Tensor:
        """See DecoderState."""
        distances_NC = torch.arange(shape.length, device=positions_N.device) - positions_N[:, None]
        return distances_NC.repeat_interleave(self.width, 1)[:, None, None]

    def source_index(self, shape: StepShape) -> KvIndex:
        """See DecoderState."""
        return Strided(self._first_source, shape.slots, self.capacity, shape.source_length)


class FixedAllocator:
    """Allocates to each sentence the KV slots of its slot; see KvAllocator.

    Args:
        state: The state that owns them.
    """

    def __init__(self, state: FixedDecoderState) -> None:
        self._state = state

    def allocate(self, slots: Sequence[int], sentences: Sequence[Sentence]) -> tuple[Tensor, Tensor]:
        """See KvAllocator; there are always enough."""
        first, last = min(slots), max(slots) + 1
        chosen = [slot - first for slot in slots]
        target_kv_NKC = self._state.target_kv_NKC[first:last]
        return target_kv_NKC[chosen], self._state.source_kv_NS[first:last][chosen]

    def free(self, slot: int, sentence: Sentence, *, is_broken: bool) -> None:
        """See KvAllocator; NaN must not remain, because masks hide values only by a factor of 0."""
        if is_broken:
            self._state.pool.clear(self._state.target_kv_NKC[slot].flatten())
            self._state.pool.clear(self._state.source_kv_NS[slot])
