"""⑤ What a decoder remembers between two steps: preallocated, written in place.

A grid of N slots (sentences) × K lanes (their beams or samples). Keys and values of the source
are projected once a sentence and shared by its lanes.

Shapes: N slots, K lanes, H heads, C capacity, S source positions, D head width, M model width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Memory:
    """What the encoder made of a batch of sentences.

    Attributes:
        states_NSM: Encoder output.
        mask_NS: True where a token is real, False where it is padding.
    """

    states_NSM: Tensor
    mask_NS: Tensor


class SelfCache:
    """Keys and values of one layer's earlier target positions, per lane."""

    def __init__(
        self, slots: int, lanes: int, heads: int, capacity: int, head_dim: int, like: Tensor
    ) -> None:
        shape = (slots, lanes, heads, capacity, head_dim)
        self.keys_NKHCD = like.new_empty(shape)
        self.values_NKHCD = like.new_empty(shape)

    def append(self, position: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write one position, (N·K, H, 1, D) each, and return all up to it, (N·K, H, position + 1, D)."""
        rows_keys, rows_values = self.keys_NKHCD.flatten(0, 1), self.values_NKHCD.flatten(0, 1)
        rows_keys[:, :, position : position + 1] = keys
        rows_values[:, :, position : position + 1] = values
        return rows_keys[:, :, : position + 1], rows_values[:, :, : position + 1]

    def reorder(self, rows: Tensor, length: int) -> None:
        """Give every row the first `length` positions of the row it continues."""
        for buffer in (self.keys_NKHCD, self.values_NKHCD):
            filled = buffer.flatten(0, 1)[:, :, :length]
            filled.copy_(filled.index_select(0, rows))

    def keep(self, slots: Tensor) -> None:
        """Drop all slots but these."""
        self.keys_NKHCD = self.keys_NKHCD.index_select(0, slots)
        self.values_NKHCD = self.values_NKHCD.index_select(0, slots)


@dataclass
class CrossCache:
    """Keys and values of the source for one layer, (N, H, S, D) each, shared by a slot's lanes."""

    keys_NHSD: Tensor
    values_NHSD: Tensor

    def keep(self, slots: Tensor) -> None:
        """Drop all slots but these."""
        self.keys_NHSD = self.keys_NHSD.index_select(0, slots)
        self.values_NHSD = self.values_NHSD.index_select(0, slots)


@dataclass
class LayerState:
    """What one decoder layer remembers; a decoder alone has no source."""

    past: SelfCache
    source: CrossCache | None

    def keep(self, slots: Tensor) -> None:
        """Drop all slots but these."""
        self.past.keep(slots)
        if self.source is not None:
            self.source.keep(slots)


@dataclass
class PositionTables:
    """What each position of a state adds or turns, computed once; None where a variant has no use for it.

    Attributes:
        added_CM: Added to the embedding.
        rotations_2CD: Cosines and sines that turn queries and keys, (2, C, D/2).
        distance_bias_HC: Bias of a key `c` positions before the query.
    """

    added_CM: Tensor | None = None
    rotations_2CD: Tensor | None = None
    distance_bias_HC: Tensor | None = None


@dataclass
class DecoderState:
    """The running batch: every slot has produced `position` tokens.

    Attributes:
        layers: One entry a decoder layer.
        source_mask_NS: True where a source token is real; None for a decoder alone.
        tables: See PositionTables.
        num_slots: N.
        lanes: K.
        capacity: Positions that fit.
        position: Position that the next step writes, 0 at first.
        last_cross_attention_NKS: Weights over the source at the last step, last layer, averaged over
            heads; only after a step that was asked for them.
    """

    layers: list[LayerState]
    source_mask_NS: Tensor | None
    tables: PositionTables
    num_slots: int
    lanes: int
    capacity: int
    position: int = 0
    last_cross_attention_NKS: Tensor | None = None

    def reorder(self, parents_NK: Tensor) -> None:
        """Let lane k of slot n continue what lane `parents_NK[n, k]` of the same slot has produced."""
        first_row_N1 = torch.arange(self.num_slots, device=parents_NK.device)[:, None] * self.lanes
        rows = (first_row_N1 + parents_NK).flatten()
        for layer in self.layers:
            layer.past.reorder(rows, self.position)

    def keep(self, slots: Tensor) -> None:
        """Compact the batch: only these slots stay, in this order.

        Args:
            slots: Slot indices, int64, one-dimensional.
        """
        for layer in self.layers:
            layer.keep(slots)
        if self.source_mask_NS is not None:
            self.source_mask_NS = self.source_mask_NS.index_select(0, slots)
        self.num_slots = len(slots)
