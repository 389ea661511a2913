"""⑤ The runner for a GPU: fixed slots and a few fixed sizes, so that a step is one CUDA graph.

Shapes: N slots, K lanes.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from functools import partial
from itertools import product

import torch

from model.decoding.pytorch.batch_state import Grid, Network
from model.decoding.pytorch.cuda_graphs import CudaGraphs
from model.decoding.pytorch.device_memory import memory_errors
from model.decoding.pytorch.encoding import Encoded, SideEncoder
from model.decoding.pytorch.kv_allocator import FixedLender, FixedState
from model.decoding.pytorch.running_batch import RunningBatch
from model.decoding.pytorch.slot_options import Demands
from model.decoding.pytorch.torch_runner import TorchRunner, step_in_turn
from model.decoding.runner import Interrupt, Progress
from model.decoding.sentence import Sentence
from model.network.decoder_state import Extent


def doubling(first: int, last: int) -> tuple[int, ...]:
    """`first`, twice that, four times that… and `last`."""
    sizes = [first]
    while sizes[-1] < last:
        sizes.append(2 * sizes[-1])
    return (*(size for size in sizes if size < last), last)


def rounded_up(size: int, sizes: Sequence[int]) -> int:
    """The smallest of the ascending sizes that holds this one."""
    return sizes[bisect_left(sizes, size)]


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


class StaticRunner:
    """Usual widths run in fixed grids; what does not fit there runs beside them, at its exact size.

    See model.decoding.runner.Runner. On a GPU a new sentence takes part as soon as its encoder batch is
    through, which those that run do not wait for. On a CPU the same steps are computed without graphs.

    Args:
        network: In evaluation mode; its weights must not change.
        device: Where the network lives.
        max_rows: Most hypotheses at once.
        max_positions: Most entries of decoder state, of any widths and lengths. The fixed grids take
            at most as many again.
        widths: Lanes of the fixed grids; all have as many rows, `max_rows` if there is memory for them.
        capacity: Longest source and translation in a fixed grid.
        never_produced: Target ids that no translation may hold, beside padding and BOS.
    """

    @torch.inference_mode()
    def __init__(
        self,
        network: Network,
        device: torch.device | str = "cuda",
        *,
        max_rows: int,
        max_positions: int = 2**16,
        widths: Collection[int] = (1, 4),
        capacity: int = 256,
        never_produced: Collection[int] = (),
    ) -> None:
        self._device = torch.device(device)
        self._encoder = SideEncoder(network, self._device)
        self._exact = TorchRunner(
            network,
            self._device,
            max_rows=max_rows,
            max_positions=max_positions,
            never_produced=never_produced,
        )
        self._graphs = CudaGraphs(self._device)
        capacity = min(capacity, network.config.max_positions)
        tables = network.position_tables(capacity)
        row_positions = sum(capacity * (lanes + 1) / lanes for lanes in widths)
        rows = min(max_rows, int(max_positions / max(row_positions, 1)))
        self._fixed: dict[int, StaticBatch] = {}
        for lanes in (lanes for lanes in widths if lanes <= rows):
            state = FixedState(network, tables, slots=rows // lanes, lanes=lanes, capacity=capacity)
            grid = Grid(network, state, never_produced)
            self._fixed[lanes] = StaticBatch(grid, state, self._graphs)
        self._encoding: list[Encoded] = []

    @property
    def max_rows(self) -> int:
        """See Runner."""
        return self._exact.max_rows

    @property
    def max_positions(self) -> int:
        """See Runner."""
        return self._exact.max_positions

    @torch.inference_mode()
    def warm_up(self) -> None:
        """Record the steps of all buckets for usual options; others are recorded as they come."""
        for batch in self._fixed.values():
            batch.warm_up()

    @torch.inference_mode()
    def admit(self, sentences: Sequence[Sentence]) -> None:
        """See Runner."""
        with memory_errors(self._device):
            self._encoding.append(self._encoder.encode(sentences))

    @torch.inference_mode()
    def advance(self, interrupt: Interrupt, max_steps: int) -> Progress:
        """See Runner."""
        with memory_errors(self._device):
            return step_in_turn(self._with_newcomers, interrupt, max_steps)

    def _with_newcomers(self) -> list[RunningBatch]:
        while self._encoding and (self._encoding[0].is_ready() or not self._running()):
            encoded = self._encoding.pop(0)
            encoded.collect()
            self._seat(encoded)
        return self._running()

    def _seat(self, encoded: Encoded) -> None:
        for lanes in {s.rows: None for s in encoded.sentences}:
            alike = [s for s in encoded.sentences if s.rows == lanes]
            fixed, exact = self._divide(alike)
            if fixed:
                self._fixed[lanes].admit(fixed, encoded.of(fixed))
            if exact:
                self._exact.admit_encoded(exact, encoded.of(exact))

    def _divide(self, sentences: Sequence[Sentence]) -> tuple[list[Sentence], list[Sentence]]:
        """Those that a fixed grid has room for, and the others; all of one width."""
        batch = self._fixed.get(sentences[0].rows)
        room = batch.room if batch else 0
        fixed = [s for s in sentences if batch and batch.holds(s)][:room]
        return fixed, [s for s in sentences if s not in fixed]

    def _running(self) -> list[RunningBatch]:
        return [*(batch for batch in self._fixed.values() if batch.sentences), *self._exact.batches()]

    @torch.inference_mode()
    def drop(self, sentences: Sequence[Sentence]) -> None:
        """See Runner."""
        for encoded in self._encoding:
            encoded.sentences = [s for s in encoded.sentences if s not in sentences]
        for batch in self._fixed.values():
            batch.drop(sentences)
        self._exact.drop(sentences)

    @torch.inference_mode()
    def agreed(self, sentence: Sentence) -> tuple[int, ...]:
        """See Runner."""
        found = (batch for batch in self._running() if sentence in batch.sentences)
        batch = next(found, None)
        with memory_errors(self._device):
            return () if batch is None else batch.agreed(sentence)

    def close(self) -> None:
        """See Runner."""
        self._graphs.clear()
        self._fixed.clear()
        self._encoding.clear()
        self._exact.close()
