"""⑤ A running batch of fixed shapes: a step is rounded up to a bucket, and replayed as a CUDA graph.

Shapes: N slots, K lanes.
"""

from functools import partial
from itertools import product

from model.decoding.pytorch.buckets import doubling, rounded_up
from model.decoding.pytorch.cuda_graphs import CudaGraphs
from model.decoding.pytorch.demands import Demands
from model.decoding.pytorch.fixed_state import FixedLender, FixedState
from model.decoding.pytorch.grid import Grid
from model.decoding.pytorch.running import RunningBatch
from model.decoding.sentence import Sentence
from model.state import Extent

_FEWEST_POSITIONS = 16
_FEWEST_SLOTS = 8
# Twice: the first run is the trial for the recording.
_RUNS_TO_RECORD = 2


class StaticBatch(RunningBatch):
    """Sentences never change their slot; slots that are empty, or only fill a bucket, are computed too.

    Args:
        grid: Over `state`; keeps its size.
        state: Decides how many slots there are, and how long a sentence may be.
        graphs: Where steps are recorded.
    """

    def __init__(self, grid: Grid, state: FixedState, graphs: CudaGraphs) -> None:
        super().__init__(grid, FixedLender(state))
        self._graphs, self._capacity = graphs, state.capacity
        self._slot_sizes = (1, *doubling(_FEWEST_SLOTS, grid.slots)) if grid.slots > 1 else (1,)
        self._lengths = doubling(min(_FEWEST_POSITIONS, state.capacity), state.capacity)

    @property
    def room(self) -> int:
        """Slots that are free."""
        return self._grid.slots - len(self.sentences)

    def holds(self, sentence: Sentence) -> bool:
        """Whether a slot is long enough for it."""
        return max(sentence.longest, sentence.source_length) <= self._capacity

    def warm_up(self) -> None:
        """Record every bucket for what most sentences of this width ask for; nothing may run."""
        is_wide = self._grid.state.lanes > 1
        demands = Demands(beams=is_wide, lanes=not is_wide)
        for slots, length in product(reversed(self._slot_sizes), reversed(self._lengths)):
            extent = Extent(slots, length, length)
            for _ in range(_RUNS_TO_RECORD):
                self._run(extent, demands)

    def _extent(self) -> Extent:
        exact = super()._extent()
        length = rounded_up(max(exact.length, exact.source_length), self._lengths)
        return Extent(rounded_up(exact.slots, self._slot_sizes), length, length)

    def _compute(self, extent: Extent) -> None:
        if self._demands.alignment:  # what is kept of every step grows, as no graph can
            super()._compute(extent)
        else:
            self._run(extent, self._demands)

    def _run(self, extent: Extent, demands: Demands) -> None:
        coarse = demands.coarse()
        work = partial(self._grid.compute, extent, coarse)
        self._graphs.run((self._grid.state.lanes, extent, coarse), work)

    def _close_ranks(self) -> None:
        while self._seats and self._seats[-1] is None:
            self._seats.pop()
