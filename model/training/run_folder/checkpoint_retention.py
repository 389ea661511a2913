"""ⓕ Which checkpoints of a run are kept: the last, the best, and the n best."""

import shutil
from collections.abc import Callable
from pathlib import Path

Save = Callable[[Path], None]
"""Writes the current weights into a checkpoint folder, atomically."""


class CheckpointRetention:
    """Keeps the folders `last`, `best` and `step-N`.

    Args:
        folder: Their parent folder.
        keep_best: How many `step-N` folders to keep; those with the highest scores.

    Attributes:
        scores: Score of each `step-N` folder, by step.
    """

    def __init__(self, folder: Path, keep_best: int) -> None:
        self._folder = folder
        self._keep_best = keep_best
        self.scores: dict[int, float] = {}

    def put(self, step: int, score: float | None, save: Save, *, is_best: bool) -> None:
        """Save the current weights in every folder that they belong in.

        Args:
            step: When the weights were reached.
            score: What ranks them; None if nothing was translated.
            save: Writes one folder.
            is_best: Whether no earlier score was as good.
        """
        save(self._folder / "last")
        if is_best:
            save(self._folder / "best")
        if score is not None and self._keep_best:
            self._rank(step, score, save)

    def _rank(self, step: int, score: float, save: Save) -> None:
        ranked = sorted({**self.scores, step: score}.items(), key=lambda item: item[1], reverse=True)
        kept = dict(ranked[: self._keep_best])
        if step in kept:
            save(self._step_folder(step))
        for dropped in self.scores.keys() - kept.keys():
            shutil.rmtree(self._step_folder(dropped), ignore_errors=True)
        self.scores = kept

    def _step_folder(self, step: int) -> Path:
        return self._folder / f"step-{step:08d}"
