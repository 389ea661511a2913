"""⑤ What a decoder remembers between two steps: a pool of entries, and tables that say whose they are.

An entry holds the keys and values of one position for all decoder layers. A sentence has an entry a
source token, shared by its lanes (beams or samples); each lane takes one more a step. A hypothesis is
a *lineage*, the list of the entries of its positions: beams that change lanes exchange these lists,
and keys and values stay where they are.

Shapes: N slots, K lanes, H heads, C positions, S source positions, D head width, M model width,
P entries of the pool, E listed entries, R rows (slots × lanes).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from model.network.slot_tensors import Columns

# Two entries belong to nobody: zeros, which stand where a list is shorter than its neighbours, and
# the place that padding is written to.
NOTHING, _SCRAP, FIRST_ENTRY = range(3)


@dataclass
class Memory:
    """What the encoder made of a batch of sentences.

    Attributes:
        states_NSM: Encoder output.
        mask_NS: True where a token is real, False where it is padding.
    """

    states_NSM: Tensor
    mask_NS: Tensor


@dataclass(frozen=True)
class Extent:
    """How much of a state a step looks at.

    Attributes:
        slots: The first so many slots.
        length: Target positions, the new one included.
        source_length: Source positions; 0 for a decoder alone.
    """

    slots: int
    length: int
    source_length: int


@dataclass(frozen=True)
class Span:
    """Entries that lie as rows of a rectangle, so that reading them copies nothing.

    Attributes:
        first: The first row's first entry.
        rows: How many rows.
        pitch: From the beginning of one row to that of the next.
        length: Entries of each row that are read.
    """

    first: int
    rows: int
    pitch: int
    length: int


Places = Tensor | Span
"""Entries to read, the same number in every row: listed, (R, C), or a span."""


class LayerPool:
    """Keys and values of one decoder layer, by entry; kept in `dtype`, read in the type of `like`."""

    def __init__(self, entries: int, heads: int, head_dim: int, like: Tensor, dtype: torch.dtype) -> None:
        # Never-written memory costs nothing until it is used, and nothing refers to it before.
        shape = entries + FIRST_ENTRY, heads, head_dim
        self._keys_PHD, self._values_PHD = (
            like.new_empty(shape, dtype=dtype),
            like.new_empty(shape, dtype=dtype),
        )
        self._read_dtype = like.dtype
        self.clear(torch.tensor([NOTHING], device=like.device))

    def write(self, entries_E: Tensor, keys_EHD: Tensor, values_EHD: Tensor) -> None:
        """Fill these entries."""
        for pool_PHD, given_EHD in ((self._keys_PHD, keys_EHD), (self._values_PHD, values_EHD)):
            pool_PHD.index_copy_(0, entries_E, given_EHD.to(pool_PHD.dtype))

    def read(self, places: Places) -> tuple[Tensor, Tensor]:
        """Keys and values, (R, H, C, D) each."""
        keys_RHCD, values_RHCD = _read(self._keys_PHD, places), _read(self._values_PHD, places)
        return keys_RHCD.to(self._read_dtype), values_RHCD.to(self._read_dtype)

    def clear(self, entries_E: Tensor) -> None:
        """Fill these entries with zeros."""
        self._keys_PHD.index_fill_(0, entries_E, 0)
        self._values_PHD.index_fill_(0, entries_E, 0)


def _read(pool_PHD: Tensor, places: Places) -> Tensor:
    found_RCHD: Tensor
    if isinstance(places, Span):
        rows = pool_PHD[places.first : places.first + places.rows * places.pitch]
        found_RCHD = rows.unflatten(0, (places.rows, places.pitch))[:, : places.length]
    else:
        found_RCHD = pool_PHD.index_select(0, places.flatten()).unflatten(0, places.shape)
    return found_RCHD.transpose(1, 2)


class KeyValuePool:
    """The memory of all hypotheses, of a size that is fixed beforehand.

    Args:
        layers: Of the decoder.
        entries: Positions that can be remembered at once, source and target together.
        heads: Attention heads.
        head_dim: Width of each.
        like: Has the type that keys are computed in, and their place.
        dtype: What keys and values are kept in; None for the type of `like`.
    """

    def __init__(
        self,
        layers: int,
        entries: int,
        heads: int,
        head_dim: int,
        like: Tensor,
        dtype: torch.dtype | None = None,
    ) -> None:
        kept = dtype or like.dtype
        self.layers = [LayerPool(entries, heads, head_dim, like, kept) for _ in range(layers)]
        self.entries, self.dtype, self.device = entries, like.dtype, like.device

    def clear(self, entries_E: Tensor) -> None:
        """Fill these entries with zeros in every layer."""
        for layer in self.layers:
            layer.clear(entries_E)

    def give_back(self) -> None:
        """Let go of the memory, whoever else still refers to the pool; it is of no use afterwards."""
        self.layers.clear()


@dataclass
class PositionTables:
    """What each position adds or turns, computed once; None where a variant has no use for it.

    Attributes:
        added_CM: Added to the embedding.
        rotations_2CD: Cosines and sines that turn queries and keys, (2, C, D/2).
        distance_bias_HC: Bias of a key `c` positions before the query.
    """

    added_CM: Tensor | None = None
    rotations_2CD: Tensor | None = None
    distance_bias_HC: Tensor | None = None


@dataclass(frozen=True)
class Window:
    """What one step reads and where it writes, the same for every layer.

    Attributes:
        positions_N: The position that each slot is at.
        written_R: The entry that each row fills.
        own: What self-attention reads, this step's entries included: a lineage a row, or all that the
            lanes of a slot have written.
        own_mask: Added to its scores, broadcasts to (rows of `own`, H, queries of each, entries of each).
        source: Each slot's source; None for a decoder alone.
        source_mask_N11S: Added to the scores of cross-attention.
        added_N1M: Added to the embeddings.
        rotations_2N11D: Turn queries and keys.
    """

    positions_N: Tensor
    written_R: Tensor
    own: Places
    own_mask: Tensor
    source: Places | None
    source_mask_N11S: Tensor | None
    added_N1M: Tensor | None
    rotations_2N11D: Tensor | None


class DecoderState(Columns):
    """A grid of slots (sentences) × lanes (their hypotheses), every slot at a position of its own.

    Args:
        pool: Where keys and values lie; other states may share it.
        tables: See PositionTables.
        slots: Rows to begin with.
        lanes: Hypotheses a sentence.
        capacity: Most target positions.
        source_capacity: Most source positions; 0 for a decoder alone.

    Attributes:
        positions_N: Tokens that each slot has produced.
    """

    def __init__(
        self,
        pool: KeyValuePool,
        tables: PositionTables,
        *,
        slots: int,
        lanes: int,
        capacity: int,
        source_capacity: int,
    ) -> None:
        self.pool, self.tables = pool, tables
        self.lanes, self.capacity, self.source_capacity = lanes, capacity, source_capacity

        def entries(*shape: int) -> Tensor:
            return torch.full(shape, NOTHING, dtype=torch.int64, device=pool.device)

        self.positions_N = torch.zeros(slots, dtype=torch.int64, device=pool.device)
        self.own_NKC, self.lineage_NKC = entries(slots, lanes, capacity), entries(slots, lanes, capacity)
        self.source_NS = entries(slots, source_capacity)
        self.is_source_NS = torch.zeros(slots, source_capacity, dtype=torch.bool, device=pool.device)

    def seat(self, slots_N: Tensor, own_NKC: Tensor, source_NS: Tensor, is_source_NS: Tensor) -> None:
        """Let new sentences begin in these slots.

        Args:
            slots_N: Which.
            own_NKC: Entries that their lanes may fill, one a position; any number of positions.
            source_NS: Entries of their sources; NOTHING where a source is shorter than others.
            is_source_NS: True where a source token is real.
        """
        self.positions_N.index_fill_(0, slots_N, 0)
        self.lineage_NKC.index_fill_(0, slots_N, NOTHING)
        # No mask hides what is no number: nothing of who was here before may be looked at.
        self.source_NS.index_fill_(0, slots_N, NOTHING)
        for table, rows in ((self.own_NKC, own_NKC), (self.source_NS, source_NS)):
            table[slots_N, ..., : rows.shape[-1]] = rows
        self.is_source_NS.index_fill_(0, slots_N, False)
        self.is_source_NS[slots_N, : is_source_NS.shape[1]] = is_source_NS

    def write_source(self, layer: int, slots_N: Tensor, keys_NHSD: Tensor, values_NHSD: Tensor) -> None:
        """Fill the entries of sources that were seated; padding goes where nobody reads."""
        entries_NS = self.source_NS[slots_N, : keys_NHSD.shape[2]]
        entries_E = entries_NS.masked_fill(entries_NS == NOTHING, _SCRAP).flatten()
        keys_EHD, values_EHD = (x.transpose(1, 2).flatten(0, 1) for x in (keys_NHSD, values_NHSD))
        self.pool.layers[layer].write(entries_E, keys_EHD, values_EHD)

    def exact_extent(self) -> Extent:
        """All slots up to the furthest position. The host waits for the device."""
        length = int(self.positions_N.max()) + 1
        return Extent(len(self.positions_N), length, self.source_capacity)

    def window(self, extent: Extent) -> Window:
        """What a step over this extent looks at; takes note of the entries that it is to fill."""
        positions_N = self.positions_N[: extent.slots].clamp_max(self.capacity - 1)
        at_NK1 = positions_N[:, None, None].expand(-1, self.lanes, 1)
        written_NK1 = self.own_NKC[: extent.slots].gather(2, at_NK1)
        self.lineage_NKC[: extent.slots].scatter_(2, at_NK1, written_NK1)
        tables = self.tables
        added = None if tables.added_CM is None else tables.added_CM[positions_N, None]
        return Window(
            positions_N=positions_N,
            written_R=written_NK1.flatten(),
            own=self._own(extent),
            own_mask=self._own_mask(positions_N, extent),
            source=self._source(extent) if extent.source_length else None,
            source_mask_N11S=self._source_mask(extent) if extent.source_length else None,
            added_N1M=added,
            rotations_2N11D=self._rotations(positions_N),
        )

    def _own(self, extent: Extent) -> Places:
        lineage_NKC: Tensor = self.lineage_NKC[: extent.slots, :, : extent.length]
        return lineage_NKC.flatten(0, 1)

    def _source(self, extent: Extent) -> Places:
        source_NS: Tensor = self.source_NS[: extent.slots, : extent.source_length]
        return source_NS

    def _own_mask(self, positions_N: Tensor, extent: Extent) -> Tensor:
        ago_NC = positions_N[:, None] - torch.arange(extent.length, device=positions_N.device)
        mask_NHC = self._distance_bias(ago_NC).masked_fill((ago_NC < 0)[:, None], float("-inf"))
        return mask_NHC.repeat_interleave(self.lanes, 0)[:, :, None]

    def _distance_bias(self, ago_NC: Tensor) -> Tensor:
        """What is added to the score of a key so many positions before the query, (N, H or 1, C)."""
        bias_HC = self.tables.distance_bias_HC
        if bias_HC is None:
            return torch.zeros_like(ago_NC, dtype=self.pool.dtype)[:, None]
        return bias_HC[:, ago_NC.clamp_min(0)].transpose(0, 1)

    def _source_mask(self, extent: Extent) -> Tensor:
        is_source_NS = self.is_source_NS[: extent.slots, : extent.source_length]
        # A softmax over nothing would be 0/0: an empty row sees all of its padding.
        is_seen_NS = is_source_NS | ~is_source_NS.any(1, keepdim=True)
        mask_NS = torch.zeros(is_seen_NS.shape, dtype=self.pool.dtype, device=is_seen_NS.device)
        return mask_NS.masked_fill(~is_seen_NS, float("-inf"))[:, None, None]

    def _rotations(self, positions_N: Tensor) -> Tensor | None:
        turns_2CD = self.tables.rotations_2CD
        return None if turns_2CD is None else turns_2CD[:, positions_N, None, None]

    def reorder(self, parents_NK: Tensor, length: int) -> None:
        """Let lane k of slot n continue what lane `parents_NK[n, k]` of the same slot has produced.

        Args:
            parents_NK: Of the first slots, as many as there are rows.
            length: No slot has produced more.
        """
        lineage_NKC = self.lineage_NKC[: len(parents_NK), :, :length]
        lineage_NKC.copy_(lineage_NKC.gather(1, parents_NK[..., None].expand_as(lineage_NKC)))
