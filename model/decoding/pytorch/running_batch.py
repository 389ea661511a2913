"""⑤ One running batch: which sentence has which slot and KV slots, how long it is, and its results.

Shapes: N slots, K hypotheses, C positions, S source positions.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.decoding.pytorch.backpointers import SlotBackpointers, common_prefix
from model.decoding.pytorch.batch_state import BatchState, SlotRecords, Starts
from model.decoding.pytorch.device_use import Transfer, to_device
from model.decoding.pytorch.search import contenders, results
from model.decoding.pytorch.slot_options import ActiveFeatures, SlotOptions
from model.decoding.runner import Result
from model.decoding.sentence import Sentence
from model.errors import DecodingError, NotFiniteError
from model.network.decoder_state import FIRST_KV_SLOT, ZERO_KV_SLOT, EncoderOutput, SlotTensors, StepShape

Finished = list[tuple[Sentence, Result]]


class KvAllocator:
    """Allocates to each sentence what it may need, anywhere in a pool that several batches share.

    Args:
        num_kv_slots: KV slots of the pool; the last ones given back are taken first, while they are in the
            caches.
    """

    def __init__(self, num_kv_slots: int) -> None:
        self._free = list(range(FIRST_KV_SLOT + num_kv_slots - 1, FIRST_KV_SLOT - 1, -1))
        self._allocated: dict[Sentence, list[int]] = {}

    @property
    def num_free(self) -> int:
        """The number of free KV slots."""
        return len(self._free)

    def allocate(
        self, sentences: Sequence[Sentence], longest: int, source_length: int
    ) -> tuple[list[list[list[int]]], list[list[int]]]:
        """KV slots for the hypotheses of new sentences, N × K × C, and for their sources, N × S.

        Args:
            sentences: Of one number of hypotheses.
            longest: C, at least the length of each translation; ZERO_KV_SLOT is beyond it.
            source_length: S, at least the length of each source; ZERO_KV_SLOT is beyond it.

        Raises:
            DecodingError: If too few are free, and none is allocated; the engine admits within the budget.
        """
        needed = sum(sentence.kv_slots for sentence in sentences)
        if needed > self.num_free:
            raise DecodingError(f"the decoder state can take {self.num_free} more KV slots, not {needed}")
        targets, sources = [], []
        for sentence in sentences:
            cut = len(self._free) - sentence.kv_slots
            own = self._allocated[sentence] = self._free[cut:][::-1]
            del self._free[cut:]
            length, each = sentence.source_length, sentence.longest
            sources.append(_padded(own[:length], source_length))
            starts = range(length, len(own), each)
            targets.append([_padded(own[start : start + each], longest) for start in starts])
        return targets, sources

    def free(self, sentence: Sentence) -> None:
        """Free the KV slots of a sentence; the next sentence that has one fills it before it is read."""
        self._free += self._allocated.pop(sentence)


class SlotLengths(SlotTensors):
    """Lengths of the sentences, on the host; an empty slot has zeros.

    Sentences are numbered from 1 in the order in which they start, because the device may report a step when
    a slot has another sentence already.

    Args:
        slots: Initial number of slots.
    """

    SLOT_TENSORS = ("_lengths_N", "_longest_N", "_source_lengths_N", "_sentence_numbers_N")

    def __init__(self, slots: int) -> None:
        self._lengths_N = torch.zeros(slots, dtype=torch.int64)
        self._longest_N = torch.zeros(slots, dtype=torch.int64)
        self._source_lengths_N = torch.zeros(slots, dtype=torch.int64)
        self._sentence_numbers_N = torch.zeros(slots, dtype=torch.int64)
        self._last_number = 0

    def assign(self, slots: Sequence[int], sentences: Sequence[Sentence]) -> None:
        """Start sentences in slots."""
        self._lengths_N[slots] = 0
        self._longest_N[slots] = torch.tensor([sentence.longest for sentence in sentences])
        self._source_lengths_N[slots] = torch.tensor([sentence.source_length for sentence in sentences])
        self._sentence_numbers_N[slots] = torch.arange(len(slots)) + self._last_number + 1
        self._last_number += len(slots)

    def clear(self, slots: Sequence[int]) -> None:
        """Mark slots as empty."""
        for tensor in self.slot_tensors():
            tensor[slots] = 0

    def start_step(self, slots: int) -> Tensor:
        """Count one more token in each of the first slots that is not at its maximum length.

        Returns:
            The number of the sentence in each slot, for `done`.
        """
        self._lengths_N[:slots].add_(self._lengths_N[:slots] < self._longest_N[:slots])
        return self._sentence_numbers_N[:slots].clone()

    def done(self, sentence_numbers_N: Tensor, flags_N2: Tensor) -> list[int]:
        """The slots that a step completed, among those whose sentence took part in it.

        Args:
            sentence_numbers_N: What `start_step` returned for the step.
            flags_N2: See BatchState.flags.
        """
        is_same_N = self._sentence_numbers_N[: len(sentence_numbers_N)] == sentence_numbers_N
        is_done_N = ~flags_N2[:, 0] & is_same_N & (sentence_numbers_N > 0)
        done: list[int] = is_done_N.nonzero().flatten().tolist()
        return done

    def may_advance(self, slots: int) -> bool:
        """Returns whether any of the first slots is not at its maximum length."""
        return bool((self._lengths_N[:slots] < self._longest_N[:slots]).any())

    def longest(self, slots: Sequence[int]) -> int:
        """Most tokens that any of these slots has produced, counting a step that the device may still do."""
        return int(self._lengths_N[slots].max())

    def step_shape(self, slots: int) -> StepShape:
        """What the next step of the first slots must look at."""
        lengths_N = self._lengths_N[:slots]
        length = int((lengths_N * (lengths_N < self._longest_N[:slots])).max()) + 1
        return StepShape(slots, length, int(self._source_lengths_N[:slots].max()))


@dataclass(frozen=True)
class StartedStep:
    """A step that the device was given, and what it will say of it.

    Attributes:
        sentence_numbers_N: See SlotLengths.start_step.
        flags: See BatchState.flags.
    """

    sentence_numbers_N: Tensor
    flags: Transfer


class RunningBatch:
    """Sentences with the same number of hypotheses, each at a position of its own.

    Args:
        state: Their tensors; grows as needed.
        allocator: Allocates the KV slots of the decoder state.
        is_late: Whether `step` returns what the step before it finished, so that the host never waits for the
            step that it has just started. Sentences must keep their slots then.

    Attributes:
        starting: Sentences that get their first token in the next step.
    """

    def __init__(self, state: BatchState, allocator: KvAllocator, *, is_late: bool = False) -> None:
        self._state, self._allocator, self._is_late = state, allocator, is_late
        self._started: StartedStep | None = None
        self._lengths = SlotLengths(state.slots)
        self._by_slot: list[Sentence | None] = []
        self._slots: dict[Sentence, int] = {}
        self._feature_counts: Counter[ActiveFeatures] = Counter()
        self._features = ActiveFeatures()
        self._attention: dict[Sentence, list[Tensor]] = {}
        self.starting: list[Sentence] = []

    @property
    def sentences(self) -> Collection[Sentence]:
        """The running sentences."""
        return self._slots.keys()

    @property
    def rows(self) -> int:
        """Number of their hypotheses."""
        return len(self._slots) * self._state.decoder_state.width

    def admit(self, sentences: Sequence[Sentence], encoder_output: EncoderOutput) -> None:
        """Let sentences take part from the next step on.

        Args:
            sentences: Sentences of this batch's width.
            encoder_output: Of these sentences, in the same order; further rows repeat the last one.

        Raises:
            Exception: What the allocation or the network raised; no sentence has joined then.
        """
        free = [slot for slot, sentence in enumerate(self._by_slot) if sentence is None]
        slots = [*free, *range(len(self._by_slot), len(self._by_slot) + len(sentences))][: len(sentences)]
        if slots[-1] >= self._state.slots:
            self._state.resize(max(slots[-1] + 1, 2 * self._state.slots))
            self._lengths.resize(self._state.slots)
        self._fill(slots, sentences, encoder_output)
        self._by_slot += [None] * (slots[-1] + 1 - len(self._by_slot))
        for slot, sentence in zip(slots, sentences, strict=True):
            self._by_slot[slot] = sentence
            self._slots[sentence] = slot
        self._lengths.assign(slots, sentences)
        self.starting += sentences
        self._feature_counts.update(map(ActiveFeatures.of, sentences))
        self._features = ActiveFeatures.union(self._feature_counts)

    def _fill(
        self, slots: Sequence[int], sentences: Sequence[Sentence], encoder_output: EncoderOutput
    ) -> None:
        device, copies = self._state.device, len(encoder_output.mask_NS) - len(slots)
        rows = [*range(len(slots)), *[len(slots) - 1] * copies]
        slots_N = to_device([slots[row] for row in rows], device)
        longest, length = self._lengths_to_allocate(sentences)
        targets, sources = self._allocator.allocate(sentences, longest, length)
        try:
            starts = Starts(
                slots_N,
                to_device(torch.tensor([targets[row] for row in rows]), device),
                to_device(torch.tensor([sources[row] for row in rows]), device),
                encoder_output.states_NSM[:, :length],
                encoder_output.mask_NS[:, :length],
                *SlotOptions.values([sentences[row] for row in rows], device),
            )
            self._start_sentences(starts)
            self._state.constrain(slots_N[: len(slots)], sentences)
        except Exception:  # whatever it is: free the KV slots, then raise it again
            for sentence in sentences:
                self._allocator.free(sentence)
            self._state.decoder_state.freeze(slots_N)
            raise

    def _lengths_to_allocate(self, sentences: Sequence[Sentence]) -> tuple[int, int]:
        """Positions of translations and of sources."""
        return max(s.longest for s in sentences), max(s.source_length for s in sentences)

    def _start_sentences(self, starts: Starts) -> None:
        self._state.start(starts)

    def step(self) -> Finished:
        """Produce one token in every hypothesis; returns the sentences that a step has finished."""
        self.starting = []
        started = self._start() if self._lengths.may_advance(len(self._by_slot)) else None
        finished_by, self._started = (self._started, started) if self._is_late else (started, None)
        return self._finish(finished_by) if finished_by else []

    def _start(self) -> StartedStep:
        self._compute(self._step_shape())
        sentence_numbers_N = self._lengths.start_step(len(self._by_slot))
        return StartedStep(sentence_numbers_N, self._state.flags(len(self._by_slot)))

    def _finish(self, step: StartedStep) -> Finished:
        flags_N2 = step.flags.wait()
        done = self._lengths.done(step.sentence_numbers_N, flags_N2)
        if not done:
            return []
        broken = {slot for slot in done if flags_N2[slot, 1]}
        finished = self._collect(done, broken, step.flags)
        self._vacate(done)
        return finished

    def _step_shape(self) -> StepShape:
        return self._lengths.step_shape(len(self._by_slot))

    def _compute(self, shape: StepShape) -> None:
        attention: list[Tensor] | None = [] if self._features.alignment else None
        self._state.compute(shape, self._features, attention)
        for weights_NKS in attention or ():
            for sentence, slot in self._slots.items():
                if sentence.options.return_alignment:
                    weights_KS = weights_NKS[slot, :, : sentence.source_length].float().clone()
                    self._attention.setdefault(sentence, []).append(weights_KS)

    def drop(self, sentences: Sequence[Sentence]) -> None:
        """Remove those of the sentences that run here."""
        gone = [self._slots[sentence] for sentence in sentences if sentence in self._slots]
        self._state.decoder_state.freeze(to_device(gone, self._state.device))
        self._vacate(gone)
        self.starting = [sentence for sentence in self.starting if sentence in self._slots]

    def stable_prefix(self, sentence: Sentence) -> tuple[int, ...]:
        """Target tokens that the best result of a sentence will begin with."""
        slot = self._slots[sentence]
        ((_, record_KX, backpointers, length),) = self._read([slot])
        ends = contenders(sentence, record_KX, length)
        return common_prefix([backpointers.tokens_of(end) for end in ends])

    def _collect(self, done: Sequence[int], broken: set[int], after: Transfer) -> Finished:
        finished: Finished = []
        records = self._read(done, after)
        for slot, (sentence, record_KX, backpointers, length) in zip(done, records, strict=True):
            ends = results(sentence, record_KX, length)
            if slot in broken:
                finished.append((sentence, NotFiniteError()))
            elif not ends:
                finished.append((sentence, DecodingError("the decoding options leave no token to produce")))
            else:
                finished.append((sentence, [backpointers.hypothesis(end) for end in ends]))
        return finished

    def _read(
        self, slots: Sequence[int], after: Transfer | None = None
    ) -> Iterator[tuple[Sentence, Tensor, SlotBackpointers, int]]:
        """The sentence of each slot, the record of its search, its backpointers, and its tokens."""
        with self._state.after(after):
            packed_NKX = Transfer(self._records(slots)).wait()[: len(slots)]
        records = SlotRecords.unpack(packed_NKX)
        columns = records.search_NKX, records.backpointers_NK3T, records.lengths
        for slot, record_KX, packed_K3T, length in zip(slots, *columns, strict=True):
            if sentence := self._by_slot[slot]:
                attention = self._attention.get(sentence, [])
                yield sentence, record_KX, SlotBackpointers.unpack(packed_K3T, attention), length

    def _records(self, slots: Sequence[int]) -> Tensor:
        """See BatchState.records; further rows mean nothing."""
        return self._state.records(to_device(slots, self._state.device), self._lengths.longest(slots))

    def _vacate(self, slots: Sequence[int]) -> None:
        """Free these slots and what belongs to them."""
        for slot in slots:
            if sentence := self._by_slot[slot]:
                self._allocator.free(sentence)
                self._feature_counts -= Counter([ActiveFeatures.of(sentence)])
                self._attention.pop(sentence, None)
                del self._slots[sentence]
            self._by_slot[slot] = None
        self._lengths.clear(slots)
        self._compact()
        self._features = ActiveFeatures.union(self._feature_counts)

    def _compact(self) -> None:
        """Move the last sentences into the empty slots, so that no empty slot is computed."""
        count = len(self._slots)
        holes = [slot for slot in range(count) if self._by_slot[slot] is None]
        movers = [(slot, sentence) for slot, sentence in enumerate(self._by_slot[count:], count) if sentence]
        for hole, (_, sentence) in zip(holes, movers, strict=True):
            self._by_slot[hole] = sentence
            self._slots[sentence] = hole
        del self._by_slot[count:]
        if holes:
            sources, targets = torch.tensor([slot for slot, _ in movers]), torch.tensor(holes)
            self._lengths.move(sources, targets)
            self._state.move(to_device(sources, self._state.device), to_device(targets, self._state.device))


def _padded(kv_slots: list[int], length: int) -> list[int]:
    return kv_slots + [ZERO_KV_SLOT] * (length - len(kv_slots))
