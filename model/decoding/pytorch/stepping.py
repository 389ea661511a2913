"""⑤ Steps of several running batches in turn, until there is something to tell."""

from collections.abc import Callable, Sequence
from time import perf_counter

from model.decoding.interrupt import Interrupt
from model.decoding.pytorch.running import RunningBatch
from model.decoding.runner import Progress, StepRecord


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
