"""⑤ One running batch: which sentence has which slot, how long it is, and what became of it.

Shapes: N slots.

Shapes: N slots, K lanes, S source.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from model.decoding.pytorch.backpointers import SlotTrace, common_beginning
from model.decoding.pytorch.batch_state import Grid
from model.decoding.pytorch.device_memory import to_device
from model.decoding.pytorch.kv_allocator import Lender
from model.decoding.pytorch.search import contenders, results
from model.decoding.pytorch.slot_options import Demands
from model.decoding.runner import Result
from model.decoding.sentence import Sentence
from model.errors import DecodingError, NotFiniteError
from model.network.decoder_state import Extent, Memory
from model.network.slot_tensors import Columns


class Roll(Columns):
    """Columns of the host's; an empty slot has zeros.

    Args:
        slots: Rows to begin with.
    """

    def __init__(self, slots: int) -> None:
        self._lengths_N = torch.zeros(slots, dtype=torch.int64)
        self._longest_N = torch.zeros(slots, dtype=torch.int64)
        self._source_lengths_N = torch.zeros(slots, dtype=torch.int64)

    @property
    def device(self) -> torch.device:
        """The host."""
        return self._lengths_N.device

    def enter(self, slot: int, sentence: Sentence) -> None:
        """A sentence begins."""
        self._lengths_N[slot] = 0
        self._longest_N[slot] = sentence.longest
        self._source_lengths_N[slot] = sentence.source_length

    def leave(self, slot: int) -> None:
        """The slot is empty."""
        for _, column in self.columns():
            column[slot] = 0

    def advance(self, flags_N2: Tensor) -> list[int]:
        """Count one more token in each of the first slots.

        Args:
            flags_N2: Whether a slot is settled, and whether its numbers are broken.

        Returns:
            Those that are done: settled, broken, or as long as they may become.
        """
        slots = len(flags_N2)
        lengths_N, longest_N = self._lengths_N[:slots], self._longest_N[:slots]
        is_taken_N = longest_N > 0
        lengths_N += is_taken_N
        is_done_N = (flags_N2.any(1) | (lengths_N >= longest_N)) & is_taken_N
        done: list[int] = is_done_N.nonzero().flatten().tolist()
        return done

    def length(self, slot: int) -> int:
        """Tokens that its sentence has produced."""
        return int(self._lengths_N[slot])

    def extent(self, slots: int) -> Extent:
        """What the next step of the first slots must look at."""
        length = int(self._lengths_N[:slots].max()) + 1
        return Extent(slots, length, int(self._source_lengths_N[:slots].max()))


Finished = list[tuple[Sentence, Result]]


class RunningBatch:
    """Sentences of one width in lanes, each at a position of its own.

    Args:
        grid: Their columns; grows as needed.
        lender: Of the entries of its state.

    Attributes:
        beginners: Those that get their first token in the next step.
    """

    def __init__(self, grid: Grid, lender: Lender) -> None:
        self._grid, self._lender = grid, lender
        self._roll = Roll(grid.slots)
        self._seats: list[Sentence | None] = []
        self._slots: dict[Sentence, int] = {}
        self._kinds: Counter[Demands] = Counter()
        self._demands = Demands()
        self._attention: dict[Sentence, list[Tensor]] = {}
        self.beginners: list[Sentence] = []

    @property
    def sentences(self) -> Collection[Sentence]:
        """Those that run."""
        return self._slots.keys()

    @property
    def rows(self) -> int:
        """Hypotheses of theirs."""
        return len(self._slots) * self._grid.state.lanes

    def admit(self, sentences: Sequence[Sentence], memory: Memory) -> None:
        """Let sentences take part from the next step on.

        Args:
            sentences: Of this batch's width.
            memory: What the encoder made of them, in the same order.

        Raises:
            Exception: Whatever went wrong; then none of them has joined.
        """
        free = [slot for slot, sentence in enumerate(self._seats) if sentence is None]
        slots = [*free, *range(len(self._seats), len(self._seats) + len(sentences))][: len(sentences)]
        if slots[-1] >= self._grid.slots:
            self._grid.resize(max(slots[-1] + 1, 2 * self._grid.slots))
            self._roll.resize(self._grid.slots)
        self._fill(slots, sentences, memory)
        self._seats += [None] * (slots[-1] + 1 - len(self._seats))
        for slot, sentence in zip(slots, sentences, strict=True):
            self._seats[slot] = sentence
            self._slots[sentence] = slot
            self._roll.enter(slot, sentence)
        self.beginners += sentences
        self._kinds.update(map(Demands.of, sentences))
        self._demands = Demands.union(self._kinds)

    def _fill(self, slots: Sequence[int], sentences: Sequence[Sentence], memory: Memory) -> None:
        device = self._grid.device
        own_NKC, source_NS = self._lender.lend(slots, sentences)
        width = source_NS.shape[1]
        near = Memory(memory.states_NSM[:, :width], memory.mask_NS[:, :width])
        places = to_device(own_NKC, device), to_device(source_NS, device)
        try:
            self._grid.seat(to_device(slots, device), sentences, near, *places)
        except Exception:
            for slot, sentence in zip(slots, sentences, strict=True):
                self._lender.take_back(slot, sentence, is_broken=True)
            raise

    def step(self) -> Finished:
        """Produce one token in every lane; returns the sentences that this finished."""
        self.beginners = []
        self._compute(self._extent())
        flags_N2 = self._grid.flags(len(self._seats))
        done = self._roll.advance(flags_N2)
        if not done:
            return []
        broken = {slot for slot in done if flags_N2[slot, 1]}
        finished = self._collect(done, broken)
        self._vacate(done, broken)
        return finished

    def _extent(self) -> Extent:
        return self._roll.extent(len(self._seats))

    def _compute(self, extent: Extent) -> None:
        attention: list[Tensor] | None = [] if self._demands.alignment else None
        self._grid.compute(extent, self._demands, attention)
        for weights_NKS in attention or ():
            for sentence, slot in self._slots.items():
                if sentence.options.return_alignment:
                    weights_KS = weights_NKS[slot, :, : sentence.source_length].float().clone()
                    self._attention.setdefault(sentence, []).append(weights_KS)

    def drop(self, sentences: Sequence[Sentence]) -> None:
        """Forget these, those that are here."""
        gone = [self._slots[sentence] for sentence in sentences if sentence in self._slots]
        # Nobody has looked at what these wrote last.
        self._vacate(gone, set(gone))
        self.beginners = [sentence for sentence in self.beginners if sentence in self._slots]

    def agreed(self, sentence: Sentence) -> tuple[int, ...]:
        """Target tokens that all hypotheses begin with which its result may be or continue."""
        slot = self._slots[sentence]
        ((_, record, trace),) = self._read([slot])
        ends = contenders(sentence, record, self._roll.length(slot))
        return common_beginning([trace.tokens_of(end) for end in ends])

    def _collect(self, done: Sequence[int], broken: set[int]) -> Finished:
        finished: Finished = []
        for slot, (sentence, record, trace) in zip(done, self._read(done), strict=True):
            ends = results(sentence, record, self._roll.length(slot))
            if slot in broken:
                finished.append((sentence, NotFiniteError()))
            elif not ends:
                finished.append((sentence, DecodingError("the decoding options leave no token to produce")))
            else:
                finished.append((sentence, [trace.hypothesis(end) for end in ends]))
        return finished

    def _read(self, slots: Sequence[int]) -> Iterator[tuple[Sentence, list[list[float]], SlotTrace]]:
        """Each slot's sentence, with what the search and the trace know of it."""
        length = max(self._roll.length(slot) for slot in slots)
        records, traces = self._grid.records(to_device(slots, self._grid.device), length)
        for slot, record, trace in zip(slots, records, traces, strict=True):
            if sentence := self._seats[slot]:
                yield sentence, record, SlotTrace.read(trace, self._attention.get(sentence, []))

    def _vacate(self, slots: Iterable[int], broken: set[int]) -> None:
        """Give the room of these back."""
        for slot in slots:
            if sentence := self._seats[slot]:
                self._lender.take_back(slot, sentence, is_broken=slot in broken)
                self._kinds -= Counter([Demands.of(sentence)])
                self._attention.pop(sentence, None)
                del self._slots[sentence]
            self._seats[slot] = None
            self._roll.leave(slot)
        self._close_ranks()
        self._demands = Demands.union(self._kinds)

    def _close_ranks(self) -> None:
        """Let the last sentences take the slots that became empty, so that no empty one is computed."""
        count = len(self._slots)
        holes = [slot for slot in range(count) if self._seats[slot] is None]
        movers = [(slot, sentence) for slot, sentence in enumerate(self._seats[count:], count) if sentence]
        for hole, (_, sentence) in zip(holes, movers, strict=True):
            self._seats[hole] = sentence
            self._slots[sentence] = hole
        del self._seats[count:]
        if holes:
            self._move([slot for slot, _ in movers], holes)

    def _move(self, movers: Sequence[int], holes: Sequence[int]) -> None:
        device, host = self._grid.device, self._roll.device
        self._grid.move(to_device(movers, device), to_device(holes, device))
        self._roll.move(to_device(movers, host), to_device(holes, host))
