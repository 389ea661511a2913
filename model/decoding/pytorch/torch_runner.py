"""⑤ The runner in plain PyTorch: the reference of the others, and what runs where they cannot."""

from collections.abc import Callable, Collection, Sequence
from time import perf_counter

import torch

from model.decoding.pytorch.batch_state import Grid, Network
from model.decoding.pytorch.device_memory import memory_errors, to_device
from model.decoding.pytorch.encoding import pad_rows
from model.decoding.pytorch.kv_allocator import FreeEntries, PooledLender
from model.decoding.pytorch.running_batch import RunningBatch
from model.decoding.runner import Interrupt, Progress, StepRecord
from model.decoding.sentence import Sentence
from model.network.decoder_state import FIRST_ENTRY, DecoderState, Memory


def step_in_turn(
    batches: Callable[[], Sequence[RunningBatch]], interrupt: Interrupt, max_steps: int
) -> Progress:
    """See Runner.advance.

    Args:
        batches: Asked before every step for those that run, none of them empty.
        interrupt: See Runner.
        max_steps: See Runner.
    """
    progress = Progress()
    for _ in range(max_steps):
        running = batches()
        if not running:
            break
        _step(running, progress)
        if progress.finished or interrupt.is_set():
            break
    return progress


def _step(batches: Sequence[RunningBatch], progress: Progress) -> None:
    start = perf_counter()
    rows, sentences = sum(b.rows for b in batches), sum(len(b.sentences) for b in batches)
    for batch in batches:
        progress.started.extend(batch.beginners)
        progress.finished.extend(batch.step())
    progress.steps.append(StepRecord(perf_counter() - start, rows, sentences))


_SLOTS_AT_FIRST = 8


class TorchRunner:
    """Computes exactly what runs, on a CPU or a GPU; see model.decoding.runner.Runner.

    Sentences of one width in lanes run as one grid; grids are stepped in turn and share one pool of
    entries, the memory of all hypotheses.

    Args:
        network: In evaluation mode; its weights may change while nothing runs.
        device: Where the network lives.
        max_rows: Most hypotheses at once.
        max_positions: Most entries of decoder state.
        never_produced: Target ids that no translation may hold, beside padding and BOS.
    """

    @torch.inference_mode()
    def __init__(
        self,
        network: Network,
        device: torch.device | str = "cpu",
        *,
        max_rows: int,
        max_positions: int = 2**16,
        never_produced: Collection[int] = (),
    ) -> None:
        self._network, self._device = network, torch.device(device)
        self._max_rows, self._max_positions = max_rows, max_positions
        self._never_produced = frozenset(never_produced)
        self._pool = network.new_pool(max_positions)
        self._lender = PooledLender(FreeEntries(FIRST_ENTRY, max_positions))
        self._tables = network.position_tables(network.config.max_positions)
        self._batches: dict[int, RunningBatch] = {}

    @property
    def max_rows(self) -> int:
        """See Runner."""
        return self._max_rows

    @property
    def max_positions(self) -> int:
        """See Runner."""
        return self._max_positions

    @torch.inference_mode()
    def admit(self, sentences: Sequence[Sentence]) -> None:
        """See Runner."""
        with memory_errors(self._device):
            self._admit(sentences)

    def _admit(self, sentences: Sequence[Sentence]) -> None:
        sources = [s.request.source_ids for s in sentences]
        memory = self._network.encode(pad_rows(sources, self._network.config.pad_id, self._device))
        try:
            for lanes in {s.rows: None for s in sentences}:
                places = [place for place, s in enumerate(sentences) if s.rows == lanes]
                rows = to_device(places, self._device)
                own = Memory(memory.states_NSM[rows], memory.mask_NS[rows])
                self.admit_encoded([sentences[place] for place in places], own)
        except Exception:
            self.drop(sentences)
            raise

    def admit_encoded(self, sentences: Sequence[Sentence], memory: Memory) -> None:
        """Let sentences of one width take part; `memory` is what the encoder made of them."""
        if not self.batches() and self._network.config.positions == "relative":
            # Of the tables, this one alone is computed from weights.
            self._tables = self._network.position_tables(self._network.config.max_positions)
        lanes = sentences[0].rows
        if lanes not in self._batches:
            self._batches[lanes] = self._new_batch(lanes)
        self._batches[lanes].admit(sentences, memory)

    def _new_batch(self, lanes: int) -> RunningBatch:
        positions = self._network.config.max_positions
        state = DecoderState(
            self._pool,
            self._tables,
            slots=_SLOTS_AT_FIRST,
            lanes=lanes,
            capacity=positions,
            source_capacity=positions,
        )
        return RunningBatch(Grid(self._network, state, self._never_produced), self._lender)

    def batches(self) -> list[RunningBatch]:
        """Those that run; columns of a width that nobody needs any more are given back."""
        self._batches = {lanes: batch for lanes, batch in self._batches.items() if batch.sentences}
        return list(self._batches.values())

    @torch.inference_mode()
    def advance(self, interrupt: Interrupt, max_steps: int) -> Progress:
        """See Runner."""
        with memory_errors(self._device):
            return step_in_turn(self.batches, interrupt, max_steps)

    @torch.inference_mode()
    def drop(self, sentences: Sequence[Sentence]) -> None:
        """See Runner."""
        for batch in self._batches.values():
            batch.drop(sentences)

    @torch.inference_mode()
    def agreed(self, sentence: Sentence) -> tuple[int, ...]:
        """See Runner."""
        with memory_errors(self._device):
            return self._batches[sentence.rows].agreed(sentence)

    def close(self) -> None:
        """See Runner."""
        self._batches.clear()
        self._pool.give_back()
