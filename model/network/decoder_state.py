"""What a decoder remembers between two steps: a pool of KV slots, and tables that say whose they are.

A KV slot holds the keys and values of one position for all decoder layers. A sentence has one KV slot
per source token, shared by its hypotheses (beams or samples); each hypothesis takes one more per step.
The *block table* of a hypothesis lists the KV slots of its positions: a beam search that reorders its
hypotheses exchanges these lists, and keys and values stay where they are.

Where a recurrent cell replaces self-attention, each hypothesis has a cell per layer; hypotheses that
are reordered copy their parents' cells. Only sources need KV slots then.

Shapes: N slots (sentences), K hypotheses of a slot, H heads, C positions, S source positions, D head dim,
L layers, M model dim, P KV slots of the pool, E listed KV slots, R rows (slots × hypotheses).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

# Two KV slots belong to no sentence: zeros, which fill up lists that are shorter than others, and the
# target of writes of padding and of slots that are not live.
ZERO_KV_SLOT, _PADDING_KV_SLOT, FIRST_KV_SLOT = range(3)


@dataclass
class EncoderOutput:
    """What the encoder computed for a batch of sentences.

    Attributes:
        states_NSM: Encoder states.
        mask_NS: True where a token is real, False where it is padding.
    """

    states_NSM: Tensor
    mask_NS: Tensor


@dataclass(frozen=True)
class StepShape:
    """How much of a state a step looks at.

    Attributes:
        slots: Number of slots, counted from the first.
        length: Target positions, the new one included.
        source_length: Source positions; 0 for a decoder alone.
    """

    slots: int
    length: int
    source_length: int


class LayerPool:
    """Keys and values of one decoder layer, by KV slot; stored in `dtype`, read in the type of `like`."""

    def __init__(
        self, num_kv_slots: int, heads: int, head_dim: int, like: Tensor, dtype: torch.dtype
    ) -> None:
        # Memory that was never written costs nothing, and no block table refers to it.
        shape = num_kv_slots + FIRST_KV_SLOT, heads, head_dim
        self._keys_PHD = like.new_empty(shape, dtype=dtype)
        self._values_PHD = like.new_empty(shape, dtype=dtype)
        self._read_dtype = like.dtype
        for pool_PHD in self.tensors:
            pool_PHD[ZERO_KV_SLOT] = 0

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """Keys and values by KV slot, (P, H, D) each."""
        return self._keys_PHD, self._values_PHD

    def write(self, kv_slots_E: Tensor, keys_EHD: Tensor, values_EHD: Tensor) -> None:
        """Write keys and values to KV slots."""
        for pool_PHD, given_EHD in ((self._keys_PHD, keys_EHD), (self._values_PHD, values_EHD)):
            pool_PHD.index_copy_(0, kv_slots_E, given_EHD.to(pool_PHD.dtype))

    def read(self, kv_slots_RC: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values, (R, H, C, D) each."""
        keys_RHCD, values_RHCD = _read(self._keys_PHD, kv_slots_RC), _read(self._values_PHD, kv_slots_RC)
        return keys_RHCD.to(self._read_dtype), values_RHCD.to(self._read_dtype)


def _read(pool_PHD: Tensor, kv_slots_RC: Tensor) -> Tensor:
    found_RCHD: Tensor = pool_PHD.index_select(0, kv_slots_RC.flatten()).unflatten(0, kv_slots_RC.shape)
    return found_RCHD.transpose(1, 2)


class KeyValuePool:
    """Keys and values of all hypotheses, in memory of a fixed size.

    Args:
        layers: Number of decoder layers.
        num_kv_slots: Positions that can be stored at once, source and target together.
        heads: Attention heads.
        head_dim: Dimension of each head.
        like: Has the type that keys are computed in, and their device.
        dtype: Type that keys and values are stored in; None for the type of `like`.
        cell_shape: Recurrent layers, and the width of their cells; a state allocates the cells.
    """

    def __init__(
        self,
        layers: int,
        num_kv_slots: int,
        heads: int,
        head_dim: int,
        like: Tensor,
        dtype: torch.dtype | None = None,
        *,
        cell_shape: tuple[int, int] = (0, 0),
    ) -> None:
        stored = dtype or like.dtype
        self.layers = [LayerPool(num_kv_slots, heads, head_dim, like, stored) for _ in range(layers)]
        self.dtype, self.device, self.cell_shape = like.dtype, like.device, cell_shape

    def free(self) -> None:
        """Free the memory even if other objects still refer to the pool, which must not be used again."""
        self.layers.clear()


@dataclass
class PositionTables:
    """What each position adds, or how it rotates, computed once; None where a variant does not use it.

    Attributes:
        added_CM: Added to the embedding.
        rotations_2CD: Cosines and sines that rotate queries and keys, (2, C, D/2).
        distance_bias_HC: Bias of a key `c` positions before the query.
    """

    added_CM: Tensor | None = None
    rotations_2CD: Tensor | None = None
    distance_bias_HC: Tensor | None = None


class StepView:
    """What one step reads and where it writes, the same for every layer; a mask is made when a layer uses it.

    Args:
        state: The state of the step.
        shape: How much of it the step looks at.

    Attributes:
        state: As given; the fused kernels read it themselves.
        cells_NKLM: Recurrent cells, which the layers change in place.
    """

    def __init__(self, state: "DecoderState", shape: StepShape) -> None:
        self.state, self._shape = state, shape
        self.cells_NKLM = state.cells_NKLM[: shape.slots]

    @property
    def has_source(self) -> bool:
        """Returns whether there is a source; a decoder alone has none."""
        return self._shape.source_length > 0

    @cached_property
    def positions(self) -> Tensor:
        """The position of each slot, (N,)."""
        return self.state.positions_N[: self._shape.slots].clamp_max(self.state.capacity - 1)

    @cached_property
    def written_kv_slots(self) -> Tensor:
        """The KV slot that each row fills, (R,).

        It is entered in the block tables, so this must be read before `target_kv_slots`.
        """
        return self.state.enter(self.positions)

    @cached_property
    def target_kv_slots(self) -> Tensor:
        """The block table of each row, this step's KV slots included, (R, C)."""
        return self.state.block_table_NKC[: self._shape.slots, :, : self._shape.length].flatten(0, 1)

    @cached_property
    def target_mask(self) -> Tensor:
        """Added to the scores of self-attention; broadcasts to (R, H, 1, C)."""
        ago_NC = self.positions[:, None] - torch.arange(self._shape.length, device=self.positions.device)
        bias_HC = self.state.tables.distance_bias_HC
        if bias_HC is None:
            bias_NHC = torch.zeros_like(ago_NC, dtype=self.state.pool.dtype)[:, None]
        else:
            bias_NHC = bias_HC[:, ago_NC.clamp_min(0)].transpose(0, 1)
        mask_NHC = bias_NHC.masked_fill((ago_NC < 0)[:, None], float("-inf"))
        return mask_NHC.repeat_interleave(self.state.width, 0)[:, :, None]

    @cached_property
    def target_distances(self) -> Tensor:
        """Positions of these KV slots less that of the query; broadcasts as `target_mask`."""
        at_C = torch.arange(self._shape.length, device=self.positions.device)
        return (at_C - self.positions[:, None]).repeat_interleave(self.state.width, 0)[:, None, None]

    @cached_property
    def source_kv_slots(self) -> Tensor:
        """The KV slots of the source of each slot, (N, S)."""
        return self.state.source_kv_NS[: self._shape.slots, : self._shape.source_length]

    @cached_property
    def source_mask(self) -> Tensor:
        """Added to the scores of cross-attention, (N, 1, 1, S)."""
        is_source_NS = self.state.is_source_NS[: self._shape.slots, : self._shape.source_length]
        # A softmax over no position would be 0/0: an empty slot sees all of its padding.
        is_seen_NS = is_source_NS | ~is_source_NS.any(1, keepdim=True)
        mask_NS = torch.zeros(is_seen_NS.shape, dtype=self.state.pool.dtype, device=is_seen_NS.device)
        return mask_NS.masked_fill(~is_seen_NS, float("-inf"))[:, None, None]

    @cached_property
    def added(self) -> Tensor | None:
        """Added to the embeddings, (N, 1, M)."""
        added_CM = self.state.tables.added_CM
        return None if added_CM is None else added_CM[self.positions, None]

    @cached_property
    def rotations(self) -> Tensor | None:
        """Rotate queries and keys, (2, N, 1, 1, D/2)."""
        rotations_2CD = self.state.tables.rotations_2CD
        return None if rotations_2CD is None else rotations_2CD[:, self.positions, None, None]


class SlotTensors:
    """Base of a class that keeps tensors with one row per slot; unused rows hold anything.

    Attributes:
        SLOT_TENSORS: Names of the attributes that are such tensors.
    """

    SLOT_TENSORS: ClassVar[tuple[str, ...]] = ()

    def parts(self) -> Iterator["SlotTensors"]:
        """This object, and others whose slots are the same."""
        yield self

    def slot_tensors(self) -> Iterator[Tensor]:
        """The tensors of all parts."""
        for part in self.parts():
            for name in part.SLOT_TENSORS:
                yield getattr(part, name)

    def move(self, sources: Tensor, targets: Tensor) -> None:
        """Copy rows `sources` over rows `targets`, both int64 and without a row in common."""
        for tensor in self.slot_tensors():
            tensor.index_copy_(0, targets, tensor.index_select(0, sources))

    def resize(self, slots: int) -> None:
        """Grow to at least `slots` rows; new rows hold zeros."""
        for part in self.parts():
            for name in part.SLOT_TENSORS:
                tensor: Tensor = getattr(part, name)
                if len(tensor) < slots:
                    larger = tensor.new_zeros(slots, *tensor.shape[1:])
                    larger[: len(tensor)] = tensor
                    setattr(part, name, larger)


class DecoderState(SlotTensors):
    """Slots (sentences) with K hypotheses each, every slot at a position of its own.

    Args:
        pool: Where keys and values are; other states may share it.
        tables: See PositionTables.
        slots: Initial number of slots.
        width: K, hypotheses of each sentence.
        capacity: Most target positions.
        source_capacity: Most source positions; 0 for a decoder alone.
        is_fused: Whether the Triton kernels compute the step; see `network.triton_ops`.

    Attributes:
        positions_N: Tokens that each slot has produced.
        target_kv_NKC: KV slots that each hypothesis may fill, one per position.
        block_table_NKC: KV slots of the positions of each hypothesis.
        source_kv_NS: KV slots of each source.
        is_source_NS: True where a source token is real.
        source_lengths_N: Positions of each source up to its last real token.
        is_live_N: False where a slot is empty or its sentence is complete.
        cells_NKLM: Cells of recurrent layers, float32; L is 0 without such layers.
    """

    SLOT_TENSORS = (
        *("positions_N", "target_kv_NKC", "block_table_NKC", "source_kv_NS", "is_source_NS"),
        *("source_lengths_N", "is_live_N", "cells_NKLM"),
    )

    def __init__(
        self,
        pool: KeyValuePool,
        tables: PositionTables,
        *,
        slots: int,
        width: int,
        capacity: int,
        source_capacity: int,
        is_fused: bool = False,
    ) -> None:
        self.pool, self.tables, self.is_fused = pool, tables, is_fused
        self.width, self.capacity, self.source_capacity = width, capacity, source_capacity

        def kv_slots(*shape: int) -> Tensor:
            return torch.full(shape, ZERO_KV_SLOT, dtype=torch.int64, device=pool.device)

        self.positions_N = torch.zeros(slots, dtype=torch.int64, device=pool.device)
        self.target_kv_NKC = kv_slots(slots, width, capacity)
        self.block_table_NKC = kv_slots(slots, width, capacity)
        self.source_kv_NS = kv_slots(slots, source_capacity)
        self.is_source_NS = torch.zeros(slots, source_capacity, dtype=torch.bool, device=pool.device)
        self.source_lengths_N = torch.zeros(slots, dtype=torch.int64, device=pool.device)
        self.is_live_N = torch.zeros(slots, dtype=torch.bool, device=pool.device)
        self.cells_NKLM = torch.zeros(slots, width, *pool.cell_shape, device=pool.device)

    def assign(
        self, slots_N: Tensor, target_kv_NKC: Tensor, source_kv_NS: Tensor, is_source_NS: Tensor
    ) -> None:
        """Start new sentences in these slots.

        Args:
            slots_N: Slots to use.
            target_kv_NKC: KV slots that their hypotheses may fill, one per position; any number of
                positions.
            source_kv_NS: KV slots of their sources; ZERO_KV_SLOT where a source is shorter than others.
            is_source_NS: True where a source token is real.
        """
        self.positions_N.index_fill_(0, slots_N, 0)
        self.cells_NKLM.index_fill_(0, slots_N, 0)
        self.block_table_NKC.index_fill_(0, slots_N, ZERO_KV_SLOT)
        # No mask hides NaN: KV slots of the previous sentence must not be read.
        self.source_kv_NS.index_fill_(0, slots_N, ZERO_KV_SLOT)
        for table, rows in ((self.target_kv_NKC, target_kv_NKC), (self.source_kv_NS, source_kv_NS)):
            table[slots_N, ..., : rows.shape[-1]] = rows
        self.is_source_NS.index_fill_(0, slots_N, False)
        self.is_source_NS[slots_N, : is_source_NS.shape[1]] = is_source_NS
        places_S = torch.arange(1, is_source_NS.shape[1] + 1, device=slots_N.device)
        self.source_lengths_N[slots_N] = (is_source_NS * places_S).amax(1) if len(places_S) else 0
        self.is_live_N.index_fill_(0, slots_N, True)

    def source_kv_slots(self, slots_N: Tensor, length: int) -> Tensor:
        """KV slots for the first positions of sources that were assigned, (E,); padding is never read."""
        kv_slots_NS = self.source_kv_NS[slots_N, :length]
        return kv_slots_NS.masked_fill(kv_slots_NS == ZERO_KV_SLOT, _PADDING_KV_SLOT).flatten()

    def freeze(self, slots_N: Tensor) -> None:
        """Mark slots as empty: further steps change nothing in them, and write none of their KV slots."""
        self.is_live_N.index_fill_(0, slots_N, False)

    def exact_shape(self) -> StepShape:
        """All slots up to the furthest position. The host waits for the device."""
        length = int(self.positions_N.max()) + 1
        return StepShape(len(self.positions_N), length, self.source_capacity)

    def enter(self, positions_N: Tensor) -> Tensor:
        """Enter the KV slots of these positions in block tables of the first slots; returns them, (R,).

        A slot that is empty or complete writes where nothing is read: its KV slots may have another sentence.
        """
        slots = len(positions_N)
        at_NK1 = positions_N[:, None, None].expand(-1, self.width, 1)
        written_NK1 = self.target_kv_NKC[:slots].gather(2, at_NK1)
        written_NK1 = written_NK1.masked_fill(~self.is_live_N[:slots, None, None], _PADDING_KV_SLOT)
        self.block_table_NKC[:slots].scatter_(2, at_NK1, written_NK1)
        return written_NK1.flatten()

    def reorder(self, parents_NK: Tensor, length: int) -> None:
        """Let row k of slot n continue what row `parents_NK[n, k]` of the same slot has produced.

        Args:
            parents_NK: Parents of the first slots.
            length: Most tokens that any slot has produced.
        """
        block_table_NKC = self.block_table_NKC[: len(parents_NK), :, :length]
        block_table_NKC.copy_(block_table_NKC.gather(1, parents_NK[..., None].expand_as(block_table_NKC)))
        if self.cells_NKLM.numel():
            cells_NKLM = self.cells_NKLM[: len(parents_NK)]
            parents_NK11 = parents_NK[..., None, None]
            cells_NKLM.copy_(cells_NKLM.gather(1, parents_NK11.expand_as(cells_NKLM)))
