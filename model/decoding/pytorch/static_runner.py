"""⑤ The runner for a GPU: fixed slots and a few fixed sizes, so that a step is one CUDA graph.

Shapes: N slots, K hypotheses.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial
from itertools import product

import torch
from torch import Tensor

from model.decoding.pytorch.batch_state import BatchState, Starts
from model.decoding.pytorch.device_use import CudaGraphs, to_device, using
from model.decoding.pytorch.encoding import EncoderBatch, SideEncoder, power_of_two
from model.decoding.pytorch.running_batch import KvAllocator, RunningBatch
from model.decoding.pytorch.slot_options import ActiveFeatures
from model.decoding.pytorch.torch_runner import TorchRunner, step_in_turn
from model.decoding.runner import Interrupt, Progress
from model.decoding.sentence import Sentence
from model.network.decoder_state import DecoderState, StepShape
from model.network.transformer import Transformer

_FEWEST_POSITIONS = 16
_FEWEST_SLOTS = 8
# More sentences that arrive or finish together are recorded when they occur.
_MOST_AT_ONCE = 16


def doubling(first: int, last: int) -> tuple[int, ...]:
    """`first`, twice that, four times that… and `last`."""
    sizes = [first]
    while sizes[-1] < last:
        sizes.append(2 * sizes[-1])
    return (*(size for size in sizes if size < last), last)


def rounded_up(size: int, sizes: Sequence[int]) -> int:
    """The smallest of the ascending sizes that holds this one."""
    return sizes[bisect_left(sizes, size)]


class StaticBatch(RunningBatch):
    """Sentences never change their slot; slots that are empty, or only fill a bucket, are computed too.

    Args:
        state: Keeps its size, which decides how many slots there are, and how long a sentence may be.
        allocator: See RunningBatch.
        graphs: Recorded steps and starts of sentences.
        read_graphs: Recorded reads of results, which a GPU does while it computes a step.
    """

    def __init__(
        self, state: BatchState, allocator: KvAllocator, graphs: CudaGraphs, read_graphs: CudaGraphs
    ) -> None:
        super().__init__(state, allocator, is_late=True)
        decoder_state = state.decoder_state
        self._read_graphs = read_graphs
        self._kept_records: dict[int, tuple[Tensor, Tensor]] = {}
        self._graphs, self._capacity, self._width = graphs, decoder_state.capacity, decoder_state.width
        self._starts: dict[Hashable, Starts] = {}
        self._slot_buckets = (1, *doubling(_FEWEST_SLOTS, state.slots)) if state.slots > 1 else (1,)
        # The fused kernels read what is live, whatever the length of a step's shape is.
        shortest = self._capacity if decoder_state.is_fused else min(_FEWEST_POSITIONS, self._capacity)
        self._length_buckets = doubling(shortest, self._capacity)

    @property
    def num_free(self) -> int:
        """The number of free slots."""
        return self._state.slots - len(self.sentences)

    def holds(self, sentence: Sentence) -> bool:
        """Returns whether a slot is long enough for a sentence."""
        return max(sentence.longest, sentence.source_length) <= self._capacity

    def _lengths_to_allocate(self, sentences: Sequence[Sentence]) -> tuple[int, int]:
        return self._capacity, self._capacity

    def warm_up(self) -> None:
        """Record every bucket for the usual features of this width; nothing may run."""
        features = ActiveFeatures(beam_search=self._width > 1, independent=self._width == 1)
        for slots, length in product(reversed(self._slot_buckets), reversed(self._length_buckets)):
            self._graphs.prepare(*self._step_work(StepShape(slots, length, length), features))
        for count in doubling(1, min(_MOST_AT_ONCE, power_of_two(self._state.slots))):
            with using(self._state.device):
                work = self._read_work([0] * count)
            self._read_graphs.prepare(*work)

    def _step_shape(self) -> StepShape:
        exact = super()._step_shape()
        length = rounded_up(max(exact.length, exact.source_length), self._length_buckets)
        return StepShape(rounded_up(exact.slots, self._slot_buckets), length, length)

    def _compute(self, shape: StepShape) -> None:
        if self._features.alignment:  # the kept attention grows with every step, which no graph can do
            super()._compute(shape)
        else:
            self._graphs.run(*self._step_work(shape, self._features))

    def _step_work(self, shape: StepShape, features: ActiveFeatures) -> tuple[Hashable, Callable[[], None]]:
        """What distinguishes the recording of a step, and the step."""
        coarse = features.coarse()
        return (self._width, shape, coarse), partial(self._state.compute, shape, coarse)

    def _start_sentences(self, starts: Starts) -> None:
        shape = "starts", self._width, *starts.states_NSM.shape[:2]
        kept = self._starts.setdefault(shape, Starts(*map(torch.empty_like, vars(starts).values())))
        for tensor, new in zip(vars(kept).values(), vars(starts).values(), strict=True):
            tensor.copy_(new)
        self._graphs.run(shape, partial(self._state.start, kept))

    def _records(self, slots: Sequence[int]) -> Tensor:
        copies = power_of_two(len(slots)) - len(slots)
        self._read_graphs.run(*self._read_work([*slots, *[slots[-1]] * copies]))
        return self._kept_records[len(slots) + copies][1]

    def _read_work(self, slots: Sequence[int]) -> tuple[Hashable, Callable[[], None]]:
        """What distinguishes the recording of a read, and the read of these slots."""
        slots_N = to_device(slots, self._state.device)
        if len(slots) not in self._kept_records:
            self._kept_records[len(slots)] = slots_N, self._state.records(slots_N, self._capacity)
        kept_N, records_NKX = self._kept_records[len(slots)]
        kept_N.copy_(slots_N)

        def read() -> None:
            records_NKX.copy_(self._state.records(kept_N, self._capacity))

        return (self._width, len(slots)), read

    def _compact(self) -> None:
        while self._by_slot and self._by_slot[-1] is None:
            self._by_slot.pop()


class StaticRunner:
    """Sentences of usual widths run in fixed batches; the others run in exact batches of their own.

    See model.decoding.runner.Runner. On a GPU a new sentence takes part as soon as its encoder batch is
    done; running sentences do not wait for it. On a CPU the same steps are computed without graphs.

    Args:
        network: In evaluation mode; its weights must not change.
        device: Where the network is.
        max_rows: Most hypotheses at once.
        max_kv_slots: Most KV slots in use at once, of any widths and lengths.
        widths: Hypotheses per sentence in the fixed batches; each batch has `max_rows` rows in all.
        capacity: Longest source and translation in a fixed batch.
        never_produced: Target ids that no translation may contain, in addition to padding and BOS.
        is_fused: See DecoderState.
    """

    @torch.inference_mode()
    def __init__(
        self,
        network: Transformer,
        device: torch.device | str = "cuda",
        *,
        max_rows: int,
        max_kv_slots: int = 2**16,
        widths: Collection[int],
        capacity: int,
        never_produced: Collection[int] = (),
        is_fused: bool = False,
    ) -> None:
        self._device, self.max_rows, self.max_kv_slots = torch.device(device), max_rows, max_kv_slots
        self._encoder = SideEncoder(network, self._device)
        self._exact = TorchRunner(
            network,
            self._device,
            max_rows=max_rows,
            max_kv_slots=max_kv_slots,
            never_produced=never_produced,
            is_fused=is_fused,
        )
        # What a GPU may do at the same time must not share the memory of recordings.
        self._graphs, self._read_graphs = CudaGraphs(self._device), CudaGraphs(self._device)
        self._fixed: dict[int, StaticBatch] = {}
        self._encoding: list[EncoderBatch] = []
        capacity = min(capacity, network.config.max_positions)
        sizes = {"capacity": capacity, "source_capacity": capacity}
        with using(self._device):
            tables = network.position_tables(capacity)
            for width in (width for width in widths if width <= max_rows):
                slots = max_rows // width
                decoder_state = DecoderState(
                    self._exact.pool, tables, slots=slots, width=width, **sizes, is_fused=is_fused
                )
                state = BatchState(network, decoder_state, never_produced)
                batch = StaticBatch(state, self._exact.allocator, self._graphs, self._read_graphs)
                self._fixed[width] = batch

    @torch.inference_mode()
    def warm_up(self) -> None:
        """Record the steps of all buckets for usual options; others are recorded as they occur."""
        for batch in self._fixed.values():
            batch.warm_up()
        self._encoder.warm_up(min(self.max_rows, _MOST_AT_ONCE))

    @torch.inference_mode()
    def admit(self, sentences: Sequence[Sentence]) -> None:
        """See Runner."""
        with using(self._device):
            self._encoding.append(self._encoder.encode(sentences))

    @torch.inference_mode()
    def advance(self, interrupt: Interrupt, max_steps: int) -> Progress:
        """See Runner."""
        with using(self._device):
            return step_in_turn(self._batches, interrupt, max_steps)

    def _batches(self) -> list[RunningBatch]:
        """The batches that run, after sentences that have been encoded have joined them."""
        while self._encoding and (self._encoding[0].is_ready() or not self._running()):
            encoded = self._encoding.pop(0)
            encoded.collect()
            self._join(encoded)
        return self._running()

    def _join(self, encoded: EncoderBatch) -> None:
        for width in {s.rows: None for s in encoded.sentences}:
            fixed, exact = self._divide([s for s in encoded.sentences if s.rows == width])
            if fixed:
                self._fixed[width].admit(fixed, encoded.of(fixed, is_bucket=True))
            if exact:
                self._exact.admit_encoded(exact, encoded.of(exact))

    def _divide(self, sentences: Sequence[Sentence]) -> tuple[list[Sentence], list[Sentence]]:
        """Sentences of one width that fit into the fixed batch, and the others."""
        batch = self._fixed.get(sentences[0].rows)
        num_free = batch.num_free if batch else 0
        fixed = [s for s in sentences if batch and batch.holds(s)][:num_free]
        return fixed, [s for s in sentences if s not in fixed]

    def _running(self) -> list[RunningBatch]:
        return [*(batch for batch in self._fixed.values() if batch.sentences), *self._exact.batches()]

    @torch.inference_mode()
    def drop(self, sentences: Sequence[Sentence]) -> None:
        """See Runner."""
        for encoded in self._encoding:
            encoded.sentences = [s for s in encoded.sentences if s not in sentences]
        with using(self._device):
            for batch in self._fixed.values():
                batch.drop(sentences)
            self._exact.drop(sentences)

    @torch.inference_mode()
    def stable_prefix(self, sentence: Sentence) -> tuple[int, ...]:
        """See Runner."""
        found = (batch for batch in self._running() if sentence in batch.sentences)
        batch = next(found, None)
        with using(self._device):
            return () if batch is None else batch.stable_prefix(sentence)

    def close(self) -> None:
        """See Runner."""
        self._graphs.clear()
        self._read_graphs.clear()
        self._fixed.clear()
        self._encoding.clear()
        self._encoder.close()
        self._exact.close()
