"""⑤ One step of a batch of slots × hypotheses on its device: network, constraints, choice.

All that is known of a sentence lies in tensors of fixed shape. A step reads and writes them in place
and takes no decision on the host, so that it can be recorded once and replayed (see device_use).

Shapes: N slots, K hypotheses, C positions, S source positions, V vocabulary.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from model.decoding.pytorch import device_use
from model.decoding.pytorch.backpointers import Backpointers, TokenHistory
from model.decoding.pytorch.device_use import Transfer
from model.decoding.pytorch.search import RECORD_COLUMNS, Search
from model.decoding.pytorch.search.constraints import Constraints
from model.decoding.pytorch.search.step import Choice, StepOutput
from model.decoding.pytorch.slot_options import ActiveFeatures, OptionRows, SlotOptions
from model.decoding.sentence import Sentence
from model.network.decoder_state import DecoderState, EncoderOutput, SlotTensors, StepShape
from model.network.transformer import Transformer
from model.network.triton_ops.choice import Forbidden, record_beams, record_greedy

# Kernels are compiled for each width at its first step, while sentences wait: up to here about two seconds.
_WIDEST_FUSED_BEAM = 16


@dataclass(frozen=True)
class SlotRecords:
    """What the device knows of some slots, read by the host in one transfer.

    Attributes:
        search_NKX: See Search.record.
        backpointers_NK3T: See Backpointers.packed.
        lengths: Tokens that each slot has produced.
    """

    search_NKX: Tensor
    backpointers_NK3T: Tensor
    lengths: Sequence[int]

    @classmethod
    def unpack(cls, packed_NKX: Tensor) -> "SlotRecords":
        """Read what `BatchState.records` has for some slots, on the host."""
        lengths = packed_NKX[:, 0, RECORD_COLUMNS].long().tolist()
        backpointers_NK3T = packed_NKX[:, :, RECORD_COLUMNS + 1 :].unflatten(2, (3, -1))
        return cls(packed_NKX[:, :, :RECORD_COLUMNS], backpointers_NK3T[..., : max(lengths)], lengths)


@dataclass(frozen=True)
class Starts:
    """What starts sentences, on the device; a sentence may be there twice.

    Attributes:
        slots_N: Slots to use.
        target_kv_NKC: See DecoderState.assign.
        source_kv_NS: See DecoderState.assign.
        states_NSM: Encoder states.
        mask_NS: True where a source token is real.
        fractional_NF: See SlotOptions.values.
        integral_NI: See SlotOptions.values.
    """

    slots_N: Tensor
    target_kv_NKC: Tensor
    source_kv_NS: Tensor
    states_NSM: Tensor
    mask_NS: Tensor
    fractional_NF: Tensor
    integral_NI: Tensor


class BatchState(SlotTensors):
    """What a running batch keeps of its sentences.

    Args:
        network: In evaluation mode.
        decoder_state: State of its decoder; the batch gets as many slots and hypotheses.
        never_produced: Target ids that no translation may contain, in addition to padding and BOS.

    Attributes:
        decoder_state: As given.
    """

    SLOT_TENSORS = ("_tokens_NK", "_flags_N2")

    def __init__(
        self, network: Transformer, decoder_state: DecoderState, never_produced: Collection[int] = ()
    ) -> None:
        config, device = network.config, decoder_state.positions_N.device
        slots, width, capacity = decoder_state.target_kv_NKC.shape
        self.decoder_state = decoder_state
        self._network, self._config = network, config
        self._options = SlotOptions(slots, device)
        # A complete slot stays at the position after its last token, where a step writes what is never read.
        self._constraints = Constraints(slots, capacity + 1, config, device, never_produced)
        self._history = TokenHistory(slots, width, capacity + 1, config.pad_id, device)
        source_capacity, vocab_size = decoder_state.source_capacity, config.target_vocab_size
        self._search = Search(slots, width, source_capacity, vocab_size, config.eos_id, device)
        self._backpointers = Backpointers(slots, width, capacity + 1, device)
        self._tokens_NK = torch.full((slots, width), config.decoder_start_id, device=device)
        self._flags_N2 = torch.zeros(slots, 2, dtype=torch.bool, device=device)
        self._read_stream = torch.cuda.Stream(device) if device_use.is_cuda(device) else None

    @property
    def slots(self) -> int:
        """Number of slots."""
        return len(self._tokens_NK)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self._tokens_NK.device

    def parts(self) -> Iterator[SlotTensors]:
        """See SlotTensors."""
        yield from (self, self.decoder_state, self._options, self._constraints)
        yield from (self._history, self._backpointers, *self._search.parts)

    def start(self, starts: Starts) -> None:
        """Start new sentences in slots; like a step, this can be recorded."""
        slots_N = starts.slots_N
        self.decoder_state.assign(slots_N, starts.target_kv_NKC, starts.source_kv_NS, starts.mask_NS)
        encoder_output = EncoderOutput(starts.states_NSM, starts.mask_NS)
        self._network.cache_source(encoder_output, self.decoder_state, slots_N)
        self._options.assign(slots_N, starts.fractional_NF, starts.integral_NI)
        for part in (self._constraints, self._history, self._search):
            part.clear(slots_N)
        self._tokens_NK.index_fill_(0, slots_N, self._config.decoder_start_id)

    def constrain(self, slots_N: Tensor, sentences: Sequence[Sentence]) -> None:
        """Set what few sentences ask for, after their start."""
        self._constraints.assign(slots_N, sentences)
        self._search.assign(slots_N, sentences)

    def compute(
        self, shape: StepShape, features: ActiveFeatures, attention: list[Tensor] | None = None
    ) -> None:
        """Produce one token in every hypothesis of the first slots.

        Args:
            shape: How much of the decoder state to look at.
            features: What the sentences ask for.
            attention: Collects the weights over the source, (N, K, S).
        """
        if self.decoder_state.is_fused and self._network.has_likeliest_tokens:
            if features.is_plain_greedy:
                self._compute_greedy(shape)
                return
            if features.is_plain_beam and self.decoder_state.width <= _WIDEST_FUSED_BEAM:
                self._compute_beams(shape)
                return
        step = self._step_output(shape, features, attention)
        choice = self._search.advance(step)
        self._backpointers.record(step.positions_N, choice)
        if features.history:
            self._history.record(step.positions_N, choice.tokens_NK, choice.parents_NK)
        if choice.parents_NK is not None and self.decoder_state.width > 1:
            self.decoder_state.reorder(choice.parents_NK, shape.length)
        self._tokens_NK[: shape.slots] = choice.tokens_NK
        self._complete(choice, step)

    def _compute_greedy(self, shape: StepShape) -> None:
        options = self._options.first(shape.slots)
        log_probs_NK, tokens_NK = (each.squeeze(2) for each in self._likeliest_tokens(shape, options, 1))
        of_slots = self._tensors_of_step(shape.slots, options)
        of_search = self._search.independent.tensors(shape.slots)
        record_greedy(tokens_NK, log_probs_NK, self._config.eos_id, *of_slots, *of_search)

    def _compute_beams(self, shape: StepShape) -> None:
        options, search = self._options.first(shape.slots), self._search.beam
        likeliest = self._likeliest_tokens(shape, options, search.num_likeliest)
        of_slots, of_search = self._tensors_of_step(shape.slots, options), search.tensors(shape.slots)
        of_length = options.length_exponent_N, options.length_offset_N, options.length_scale_N
        wanted = options.num_hypotheses_N, options.stop_N, options.enough_N, *of_length
        parents_NK = record_beams(*likeliest, self._config.eos_id, *of_slots, *of_search, *wanted)
        self.decoder_state.reorder(parents_NK, shape.length)

    def _likeliest_tokens(self, shape: StepShape, options: OptionRows, top: int) -> tuple[Tensor, Tensor]:
        """See Transformer.likeliest_tokens; the slots do not advance yet."""
        slots, state = shape.slots, self.decoder_state
        states_NKM = self._network.decode_states(self._tokens_NK[:slots], state, shape)
        forbidden = Forbidden(
            is_never_V=self._constraints.is_never_V,
            eos_id=self._config.eos_id,
            shortest_N=options.shortest_N,
            positions_N=state.positions_N[:slots],
        )
        return self._network.likeliest_tokens(states_NKM, forbidden, top)

    def _tensors_of_step(self, slots: int, options: OptionRows) -> tuple[Tensor, ...]:
        """What a fused step reads and writes of the first slots, in the order of its operators."""
        state = self.decoder_state
        lengths = state.positions_N[:slots], options.longest_N, state.is_live_N[:slots]
        return *lengths, self._tokens_NK[:slots], *self._backpointers.tensors(slots), self._flags_N2[:slots]

    def _complete(self, choice: Choice, step: StepOutput) -> None:
        """Freeze the slots whose search is complete, so that further steps change nothing there."""
        slots = len(step.positions_N)
        is_live_N = self.decoder_state.is_live_N[:slots]
        is_broken_N = choice.log_probs_NK.isnan().any(1)
        is_live_N &= self.decoder_state.positions_N[:slots] < step.options.longest_N
        is_live_N.masked_fill_(choice.settled_N | is_broken_N, False)
        torch.stack([is_live_N, is_broken_N], 1, out=self._flags_N2[:slots])

    def _step_output(
        self, shape: StepShape, features: ActiveFeatures, attention: list[Tensor] | None
    ) -> StepOutput:
        slots, state = shape.slots, self.decoder_state
        positions_N = state.positions_N[:slots].clone()
        seen = attention if attention is not None or not features.attention else []
        logits_NKV = self._network.decode_step(self._tokens_NK[:slots], state, shape, attention=seen)
        model_NKV = self._constraints.restrict(logits_NKV, features).log_softmax(2, dtype=torch.float32)
        options = self._options.first(slots)
        return StepOutput(
            positions_N=positions_N,
            ranking_NKV=self._constraints.apply(model_NKV, positions_N, self._history, options, features),
            model_NKV=model_NKV,
            attention_NKS=seen[-1].float() if seen else None,
            is_source_NS=state.is_source_NS[:slots, : shape.source_length],
            is_live_N=state.is_live_N[:slots],
            options=options,
            features=features,
        )

    def flags(self, slots: int) -> Transfer:
        """Whether each of the first slots is live, and whether its last numbers were broken, (N, 2)."""
        return Transfer(self._flags_N2[:slots])

    @contextmanager
    def after(self, transfer: Transfer | None) -> Iterator[None]:
        """In the block a GPU reads while it computes the steps that it was given after a transfer."""
        if self._read_stream is None or transfer is None or transfer.is_done is None:
            yield
            return
        self._read_stream.wait_event(transfer.is_done)
        with torch.cuda.stream(self._read_stream):
            yield

    def records(self, slots_N: Tensor, length: int) -> Tensor:
        """What the search and the backpointers know of some slots; see SlotRecords.unpack.

        Args:
            slots_N: Slots to read.
            length: At least the tokens that any of them has produced.
        """
        options, positions_N = self._options.of(slots_N), self.decoder_state.positions_N[slots_N]
        is_source_NS = self.decoder_state.is_source_NS[slots_N]
        search_NKX = self._search.record(slots_N, positions_N, is_source_NS, options).double()
        lengths_NK1 = positions_N[:, None, None].expand(-1, search_NKX.shape[1], 1).double()
        return torch.cat([search_NKX, lengths_NK1, self._backpointers.packed(slots_N, length).flatten(2)], 2)
