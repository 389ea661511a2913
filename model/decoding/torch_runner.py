"""⑤ The runner in pure torch: the reference of the others, and what runs where they cannot."""

from collections.abc import Collection, Sequence
from time import perf_counter

import torch

from model.decoding.interrupt import Interrupt
from model.decoding.network import Network
from model.decoding.runner import Progress, StepRecord
from model.decoding.running import RunningBatch
from model.decoding.sentence import Sentence


class TorchRunner:
    """A running batch of exact size, on a CPU or a GPU; see model.decoding.runner.Runner.

    Args:
        network: In evaluation mode.
        device: Where the network lives.
        max_rows: Most hypotheses at once.
        max_positions: Most entries of decoder state.
        never_produced: Target ids that no translation may hold, beside padding and BOS.
    """

    def __init__(
        self,
        network: Network,
        device: torch.device | str = "cpu",
        *,
        max_rows: int = 1024,
        max_positions: int = 2**16,
        never_produced: Collection[int] = (),
    ) -> None:
        self._network, self._device = network, torch.device(device)
        self._max_rows, self._max_positions = max_rows, max_positions
        self._never_produced = frozenset(never_produced)
        self._batches: list[RunningBatch] = []

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
        by_lanes: dict[int, list[Sentence]] = {}
        for sentence in sentences:
            by_lanes.setdefault(sentence.rows, []).append(sentence)
        self._batches += [
            RunningBatch(self._network, alike, self._device, self._never_produced)
            for alike in by_lanes.values()
        ]

    @torch.inference_mode()
    def advance(self, interrupt: Interrupt, max_steps: int) -> Progress:
        """See Runner."""
        progress = Progress()
        for _ in range(max_steps):
            if not self._batches:
                break
            self._step(progress)
            if progress.finished or interrupt.is_set():
                break
        return progress

    def _step(self, progress: Progress) -> None:
        start = perf_counter()
        running = sum(len(batch.sentences) for batch in self._batches)
        rows = sum(len(batch.sentences) * batch.lanes for batch in self._batches)
        for batch in self._batches:
            if batch.position == 0:
                progress.started.extend(batch.sentences)
            progress.finished.extend(batch.step())
        self._batches = [batch for batch in self._batches if batch.sentences]
        progress.steps.append(StepRecord(perf_counter() - start, rows, running))

    @torch.inference_mode()
    def drop(self, sentences: Sequence[Sentence]) -> None:
        """See Runner."""
        for batch in self._batches:
            batch.drop(sentences)
        self._batches = [batch for batch in self._batches if batch.sentences]

    @torch.inference_mode()
    def agreed(self, sentence: Sentence) -> tuple[int, ...]:
        """See Runner."""
        return next(batch.agreed(sentence) for batch in self._batches if sentence in batch.sentences)

    def close(self) -> None:
        """See Runner."""
        self._batches = []
