"""⑤ One running batch: who sits in which slot, who is done, and what became of them.

Shapes: N slots, K lanes, S source.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from model.decoding.demands import Demands
from model.decoding.grid import Grid
from model.decoding.lending import Lender
from model.decoding.runner import Result
from model.decoding.search import contenders, results
from model.decoding.sentence import Sentence
from model.decoding.trace import SlotTrace, common_beginning
from model.decoding.transfer import to_device
from model.errors import DecodingError
from model.state import Extent, Memory

Finished = list[tuple[Sentence, Result]]


@dataclass(eq=False)
class Seat:
    """A sentence in its slot.

    Attributes:
        sentence: Whose it is.
        length: Tokens that it has produced.
        attention: Weights over its source, (K, S) a step, if it asks for them.
    """

    sentence: Sentence
    length: int = 0
    attention: list[Tensor] = field(default_factory=list)


class RunningBatch:
    """Sentences of one width in lanes, each at a position of its own.

    Args:
        grid: Their columns; grows as needed.
        lender: Of the entries of its state.
    """

    def __init__(self, grid: Grid, lender: Lender) -> None:
        self._grid, self._lender = grid, lender
        self._seats: list[Seat | None] = []
        self._demands = Demands()

    def _taken(self) -> Iterator[tuple[int, Seat]]:
        return ((slot, seat) for slot, seat in enumerate(self._seats) if seat is not None)

    @property
    def sentences(self) -> Sequence[Sentence]:
        """Those that run."""
        return [seat.sentence for _, seat in self._taken()]

    @property
    def rows(self) -> int:
        """Hypotheses of theirs."""
        return len(self.sentences) * self._grid.state.lanes

    @property
    def beginners(self) -> list[Sentence]:
        """Those that get their first token in the next step."""
        return [seat.sentence for _, seat in self._taken() if seat.length == 0]

    def admit(self, sentences: Sequence[Sentence], memory: Memory) -> None:
        """Let sentences take part from the next step on.

        Args:
            sentences: Of this batch's width.
            memory: What the encoder made of them, in the same order.

        Raises:
            Exception: Whatever went wrong; then none of them has joined.
        """
        free = [slot for slot, seat in enumerate(self._seats) if seat is None]
        slots = [*free, *range(len(self._seats), len(self._seats) + len(sentences))][: len(sentences)]
        if slots[-1] >= self._grid.slots:
            self._grid.resize(max(slots[-1] + 1, 2 * self._grid.slots))
        self._fill(slots, sentences, memory)
        self._seats += [None] * (slots[-1] + 1 - len(self._seats))
        for slot, sentence in zip(slots, sentences, strict=True):
            self._seats[slot] = Seat(sentence)
        self._demands = Demands.of(self.sentences)

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
        self._compute(self._extent())
        flags = self._grid.flags(len(self._seats))
        done: dict[int, Seat] = {}
        for slot, seat in self._taken():
            seat.length += 1
            if any(flags[slot]) or seat.length >= seat.sentence.longest:
                done[slot] = seat
        broken = {slot for slot in done if flags[slot][1]}
        finished = self._collect(done, broken) if done else []
        self._vacate(done, broken)
        return finished

    def _extent(self) -> Extent:
        seats = [seat for _, seat in self._taken()]
        length, source = max(s.length for s in seats) + 1, max(s.sentence.source_length for s in seats)
        return Extent(len(self._seats), length, source)

    def _compute(self, extent: Extent) -> None:
        attention: list[Tensor] | None = [] if self._demands.alignment else None
        self._grid.compute(extent, self._demands, attention)
        for weights_NKS in attention or ():
            for slot, seat in self._taken():
                if seat.sentence.options.return_alignment:
                    weights_KS = weights_NKS[slot, :, : seat.sentence.source_length]
                    seat.attention.append(weights_KS.float().clone())

    def drop(self, sentences: Sequence[Sentence]) -> None:
        """Forget these, those that are here."""
        gone = [slot for slot, seat in self._taken() if seat.sentence in sentences]
        # Nobody has looked at what these wrote last.
        self._vacate(gone, set(gone))

    def agreed(self, sentence: Sentence) -> tuple[int, ...]:
        """Target tokens that all hypotheses begin with which its result may be or continue."""
        found = {slot: seat for slot, seat in self._taken() if seat.sentence is sentence}
        ((seat, record, trace),) = self._read(found)
        ends = contenders(sentence, record, seat.length)
        return common_beginning([trace.tokens_of(end) for end in ends])

    def _collect(self, done: dict[int, Seat], broken: set[int]) -> Finished:
        finished: Finished = []
        for slot, (seat, record, trace) in zip(done, self._read(done), strict=True):
            ends = results(seat.sentence, record, seat.length)
            if slot in broken:
                fault = DecodingError("the network's output is not a number")
                finished.append((seat.sentence, fault))
            elif not ends:
                fault = DecodingError("the decoding options leave no token to produce")
                finished.append((seat.sentence, fault))
            else:
                finished.append((seat.sentence, [trace.hypothesis(end) for end in ends]))
        return finished

    def _read(self, seats: dict[int, Seat]) -> Iterator[tuple[Seat, list[list[float]], SlotTrace]]:
        """Each seat, with what the search and the trace know of it."""
        length = max(seat.length for seat in seats.values())
        records, traces = self._grid.records(to_device(list(seats), self._grid.device), length)
        for seat, record, trace in zip(seats.values(), records, traces, strict=True):
            yield seat, record, SlotTrace.read(trace, seat.attention)

    def _vacate(self, slots: Iterable[int], broken: set[int]) -> None:
        """Give the room of these back."""
        leaving = set(slots)
        for slot, seat in [(slot, seat) for slot, seat in self._taken() if slot in leaving]:
            self._lender.take_back(slot, seat.sentence, is_broken=slot in broken)
            self._seats[slot] = None
        if leaving:
            self._close_ranks()
            self._demands = Demands.of(self.sentences)

    def _close_ranks(self) -> None:
        """Let the last sentences take the slots that became empty, so that no empty one is computed."""
        count = len(self.sentences)
        holes = [slot for slot in range(count) if self._seats[slot] is None]
        movers = [slot for slot, _ in self._taken() if slot >= count]
        for hole, mover in zip(holes, movers, strict=True):
            self._seats[hole] = self._seats[mover]
        del self._seats[count:]
        if holes:
            self._grid.move(to_device(movers, self._grid.device), to_device(holes, self._grid.device))
