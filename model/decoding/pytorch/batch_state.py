"""⑤ One step of a batch of slots × hypotheses on its device: network, constraints, choice.

All that is known of a sentence lies in columns of fixed shape. A step reads and writes them in place
and takes no decision on the host, so that it can be recorded once and replayed (see cuda_graphs).

Shapes: N slots, K lanes, S source, V vocabulary.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

from model.config import TransformerConfig
from model.decoding.pytorch.backpointers import History, Trace
from model.decoding.pytorch.search import Search
from model.decoding.pytorch.search.constraints import Constraints
from model.decoding.pytorch.search.protocol import Step
from model.decoding.pytorch.slot_options import Demands, SlotOptions
from model.decoding.sentence import Sentence
from model.network.decoder_state import DecoderState, Extent, KeyValuePool, Memory, PositionTables
from model.network.slot_tensors import Columns


class Network(Protocol):
    """An encoder-decoder in evaluation mode. Shapes: N slots, K lanes, S source, T target, V vocabulary."""

    @property
    def config(self) -> TransformerConfig:
        """Vocabulary sizes, special ids, limits."""

    def __call__(self, source_NS: Tensor, target_NT: Tensor, /) -> Tensor:
        """Logits (N, T, V) of all target positions at once."""

    def encode(self, source_NS: Tensor, /) -> Memory:
        """Encoder states of padded source ids."""

    def new_pool(self, entries: int, /) -> KeyValuePool:
        """Memory for so many positions of the decoder."""

    def position_tables(self, capacity: int, /) -> PositionTables:
        """What positions 0…capacity−1 add or turn."""

    def remember(self, memory: Memory, state: DecoderState, slots_N: Tensor, /) -> None:
        """Project the keys and values of sources, once, into the slots where they are seated."""

    def decode_step(
        self,
        tokens_NK: Tensor,
        state: DecoderState,
        extent: Extent,
        /,
        *,
        attention: list[Tensor] | None = None,
    ) -> Tensor:
        """Logits (N, K, V) after one more token in every lane; `attention` collects (N, K, S)."""


class Grid(Columns):
    """What a running batch keeps of its sentences.

    Args:
        network: In evaluation mode.
        state: Of its decoder; the grid gets as many slots and lanes.
        never_produced: Target ids that no translation may hold, beside padding and BOS.

    Attributes:
        state: See DecoderState.
    """

    def __init__(self, network: Network, state: DecoderState, never_produced: Collection[int] = ()) -> None:
        config, device = network.config, state.positions_N.device
        slots, lanes, capacity = state.own_NKC.shape
        self.state = state
        self._network, self._config = network, config
        self._options = SlotOptions(slots, device)
        self._constraints = Constraints(slots, capacity, config, device, never_produced)
        self._history = History(slots, lanes, capacity, config.pad_id, device)
        self._search = Search(slots, lanes, state.source_capacity, config.eos_id, device)
        self._trace = Trace(slots, lanes, capacity, device)
        self._tokens_NK = torch.full((slots, lanes), config.decoder_start_id, device=device)
        self._flags_N2 = torch.zeros(slots, 2, dtype=torch.bool, device=device)

    @property
    def slots(self) -> int:
        """Rows that there are."""
        return len(self._tokens_NK)

    @property
    def device(self) -> torch.device:
        """Where its columns lie."""
        return self._tokens_NK.device

    def columns(self) -> Iterator[tuple[str, Tensor]]:
        """See Columns; its own, and those of all its parts."""
        yield from super().columns()
        for part in self._parts():
            yield from part.columns()

    def _parts(self) -> tuple[Columns, ...]:
        kept = (self.state, self._options, self._constraints, self._history, self._trace)
        return (*kept, *self._search.parts)

    def resize(self, slots: int) -> None:
        """See Columns."""
        super().resize(slots)
        for part in self._parts():
            part.resize(slots)

    def seat(
        self,
        slots_N: Tensor,
        sentences: Sequence[Sentence],
        memory: Memory,
        own_NKC: Tensor,
        source_NS: Tensor,
    ) -> None:
        """Let new sentences begin.

        Args:
            slots_N: Where.
            sentences: Who, in the same order.
            memory: What the encoder made of them.
            own_NKC: See DecoderState.seat.
            source_NS: See DecoderState.seat.
        """
        self.state.seat(slots_N, own_NKC, source_NS, memory.mask_NS)
        self._network.remember(memory, self.state, slots_N)
        self._options.seat(slots_N, sentences)
        self._constraints.seat(slots_N, sentences)
        self._history.seat(slots_N)
        for part in self._search.parts:
            part.seat(slots_N)
        self._tokens_NK.index_fill_(0, slots_N, self._config.decoder_start_id)

    def compute(self, extent: Extent, demands: Demands, attention: list[Tensor] | None = None) -> None:
        """Produce one token in every lane of the first slots.

        Args:
            extent: How much of the state to look at.
            demands: What the sentences ask for.
            attention: Collects the weights over the source, (N, K, S).
        """
        step = self._offer(extent, demands, attention)
        choice = self._search.advance(step)
        self._trace.record(step.positions_N, choice)
        if demands.history:
            self._history.record(step.positions_N, choice.tokens_NK, choice.parents_NK)
        if choice.parents_NK is not None and self.state.lanes > 1:
            self.state.reorder(choice.parents_NK, extent.length)
        self._tokens_NK[: extent.slots] = choice.tokens_NK
        is_broken_N = choice.log_probs_NK.isnan().any(1)
        self._flags_N2[: extent.slots] = torch.stack([choice.settled_N, is_broken_N], 1)

    def _offer(self, extent: Extent, demands: Demands, attention: list[Tensor] | None) -> Step:
        slots = extent.slots
        positions_N = self.state.positions_N[:slots].clamp_max(self.state.capacity - 1)
        seen = attention if attention is not None or not demands.attention else []
        tokens_NK = self._tokens_NK[:slots]
        logits_NKV = self._network.decode_step(tokens_NK, self.state, extent, attention=seen)
        model_NKV = self._constraints.restrict(logits_NKV, demands).log_softmax(2, dtype=torch.float32)
        options = self._options.first(slots)
        return Step(
            positions_N=positions_N,
            ranking_NKV=self._constraints.apply(model_NKV, positions_N, self._history, options, demands),
            model_NKV=model_NKV,
            attention_NKS=seen[-1].float() if seen else None,
            is_source_NS=self.state.is_source_NS[:slots, : extent.source_length],
            options=options,
            demands=demands,
        )

    def flags(self, slots: int) -> Tensor:
        """Of the first slots, whether each is settled, and whether its numbers are broken, (N, 2).

        They are the host's. The one time in a step that the host waits for the device.
        """
        return self._flags_N2[:slots].cpu()

    def records(
        self, slots_N: Tensor, length: int
    ) -> tuple[list[list[list[float]]], list[list[list[float]]]]:
        """What the search and the trace know of some slots: of each a list a lane, in one transfer.

        Args:
            slots_N: Which.
            length: None of them has produced more tokens.
        """
        options, positions_N = self._options.of(slots_N), self.state.positions_N[slots_N]
        record = self._search.record(slots_N, positions_N, self.state.is_source_NS[slots_N], options)
        width = record.shape[2]
        both = torch.cat([record.double(), self._trace.record_of(slots_N, length)], -1).tolist()
        return [[row[:width] for row in lanes] for lanes in both], [
            [row[width:] for row in lanes] for lanes in both
        ]
