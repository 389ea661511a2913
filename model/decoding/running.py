"""⑤ One running batch: who sits in which slot, who is done, and what became of them.

Shapes: N slots, K lanes, S source.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from model.decoding.demands import Demands
from model.decoding.grid import Grid
from model.decoding.lending import Lender
from model.decoding.runner import Result
from model.decoding.search import contenders, results
from model.decoding.sentence import Sentence
from model.decoding.trace import SlotTrace, common_beginning
from model.errors import DecodingError
from model.state import Extent, Memory

Finished = list[tuple[Sentence, Result]]


class RunningBatch:
    """Sentences of one width in lanes, each at a position of its own; the first slots are taken.

    Args:
        grid: Their columns; grows as needed.
        lender: Of the entries of its state.
    """

    def __init__(self, grid: Grid, lender: Lender) -> None:
        self._grid, self._lender = grid, lender
        self._sentences: list[Sentence] = []
        self._lengths: list[int] = []
        self._attention: dict[Sentence, list[Tensor]] = {}
        self._demands = Demands()

    @property
    def sentences(self) -> Sequence[Sentence]:
        """Those that run."""
        return self._sentences

    @property
    def rows(self) -> int:
        """Hypotheses that a step computes."""
        return len(self._sentences) * self._grid.state.lanes

    @property
    def beginners(self) -> list[Sentence]:
        """Those that get their first token in the next step."""
        pairs = zip(self._sentences, self._lengths, strict=True)
        return [sentence for sentence, length in pairs if length == 0]

    def admit(self, sentences: Sequence[Sentence], memory: Memory) -> None:
        """Let sentences take part from the next step on.

        Args:
            sentences: Of this batch's width.
            memory: What the encoder made of them, in the same order.

        Raises:
            Exception: Whatever went wrong; then none of them has joined.
        """
        slots = list(range(len(self._sentences), len(self._sentences) + len(sentences)))
        if slots[-1] >= self._grid.slots:
            self._grid.resize(max(slots[-1] + 1, 2 * self._grid.slots))
        self._seat(slots, sentences, memory)
        self._sentences += sentences
        self._lengths += [0] * len(sentences)
        self._note_demands()

    def _seat(self, slots: Sequence[int], sentences: Sequence[Sentence], memory: Memory) -> None:
        device = self._grid.state.positions_N.device
        own_NKC, source_NS = self._lender.lend(slots, sentences)
        slots_N = torch.tensor(slots, device=device)
        width = source_NS.shape[1]
        near = Memory(memory.states_NSM[:, :width], memory.mask_NS[:, :width])
        try:
            self._grid.seat(slots_N, sentences, near, own_NKC.to(device), source_NS.to(device))
        except Exception:
            for slot, sentence in zip(slots, sentences, strict=True):
                self._lender.take_back(slot, sentence, is_broken=True)
            raise

    def step(self) -> Finished:
        """Produce one token in every lane; returns the sentences that this finished."""
        self._compute(self._extent())
        flags = self._grid.flags(len(self._sentences))
        self._lengths = [length + 1 for length in self._lengths]
        done = [
            slot
            for slot, (is_settled, is_broken) in enumerate(flags)
            if is_settled or is_broken or self._lengths[slot] >= self._sentences[slot].longest
        ]
        broken = {slot for slot in done if flags[slot][1]}
        finished = self._collect(done, broken) if done else []
        self._vacate(done, broken)
        return finished

    def _extent(self) -> Extent:
        longest_source = max(s.source_length for s in self._sentences)
        return Extent(len(self._sentences), max(self._lengths) + 1, longest_source)

    def _compute(self, extent: Extent) -> None:
        attention: list[Tensor] | None = [] if self._demands.alignment else None
        self._grid.compute(extent, self._demands, attention)
        for weights_NKS in attention or ():
            for slot, sentence in enumerate(self._sentences):
                if sentence.options.return_alignment:
                    weights_KS = weights_NKS[slot, :, : sentence.source_length].float().clone()
                    self._attention.setdefault(sentence, []).append(weights_KS)

    def drop(self, sentences: Sequence[Sentence]) -> None:
        """Forget these, those that are here."""
        gone = [slot for slot, sentence in enumerate(self._sentences) if sentence in sentences]
        # Nobody has looked at what these wrote last.
        self._vacate(gone, set(gone))

    def agreed(self, sentence: Sentence) -> tuple[int, ...]:
        """Target tokens that all hypotheses begin with which its result may be or continue."""
        slot = self._sentences.index(sentence)
        record, trace = self._records([slot])[0]
        ends = contenders(sentence, record, self._lengths[slot])
        return common_beginning([trace.tokens_of(end) for end in ends])

    def _collect(self, done: Sequence[int], broken: set[int]) -> Finished:
        finished: Finished = []
        for slot, (record, trace) in zip(done, self._records(done), strict=True):
            sentence = self._sentences[slot]
            ends = results(sentence, record, self._lengths[slot])
            if slot in broken:
                finished.append((sentence, DecodingError("the network's output is not a number")))
            elif not ends:
                finished.append((sentence, DecodingError("the decoding options leave no token to produce")))
            else:
                finished.append((sentence, [trace.hypothesis(end) for end in ends]))
        return finished

    def _records(self, slots: Sequence[int]) -> list[tuple[list[list[float]], SlotTrace]]:
        slots_N = torch.tensor(slots, device=self._grid.state.positions_N.device)
        records, traces = self._grid.records(slots_N, max(self._lengths[slot] for slot in slots))
        attention = [self._attention.get(self._sentences[slot], []) for slot in slots]
        return [
            (record, SlotTrace.read(trace, weights))
            for record, trace, weights in zip(records, traces, attention, strict=True)
        ]

    def _vacate(self, slots: Sequence[int], broken: set[int]) -> None:
        """Give the room of these back; the last ones that stay take their slots."""
        if not slots:
            return
        for slot in slots:
            sentence = self._sentences[slot]
            self._attention.pop(sentence, None)
            self._lender.take_back(slot, sentence, is_broken=slot in broken)
        self._close_ranks(set(slots))
        self._note_demands()

    def _close_ranks(self, empty: set[int]) -> None:
        remaining = len(self._sentences) - len(empty)
        holes = sorted(slot for slot in empty if slot < remaining)
        movers = [slot for slot in range(remaining, len(self._sentences)) if slot not in empty]
        for hole, mover in zip(holes, movers, strict=True):
            self._sentences[hole], self._lengths[hole] = self._sentences[mover], self._lengths[mover]
        del self._sentences[remaining:], self._lengths[remaining:]
        if holes:
            device = self._grid.state.positions_N.device
            sources_N, targets_N = (torch.tensor(x, device=device) for x in (movers, holes))
            self._grid.move(sources_N, targets_N)

    def _note_demands(self) -> None:
        self._demands = Demands.of(self._sentences)
