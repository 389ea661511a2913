"""ⓕ Which checkpoints of a run are kept: the last, the best, and the n best."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

Save = Callable[[Path, Mapping[str, Tensor], int], None]
"""Writes a checkpoint folder of the given weights at the given step, whole or not at all."""


class CheckpointShelf:
    """Keeps `last`, `best` and `step-N` folders.

    Args:
        folder: Where they stand.
        save: Writes one of them.
        keep_best: How many `step-N` folders to keep; those with the highest scores.
    """

    def __init__(self, folder: Path, save: Save, keep_best: int) -> None:
        self._folder = folder
        self._save = save
        self._keep_best = keep_best
        self.scores: dict[int, float] = {}

    def put(self, step: int, weights: Mapping[str, Tensor], score: float | None, *, is_best: bool) -> None:
        """Write the checkpoints that these weights deserve.

        Args:
            step: When the weights were reached.
            weights: To keep.
            score: What ranks them; None if nothing was translated.
            is_best: Whether no earlier score was as good.
        """
        self._save(self._folder / "last", weights, step)
        if is_best:
            self._save(self._folder / "best", weights, step)
        if score is not None and self._keep_best:
            self._rank(step, weights, score)

    def _rank(self, step: int, weights: Mapping[str, Tensor], score: float) -> None:
        ranked = sorted({**self.scores, step: score}.items(), key=lambda item: item[1], reverse=True)
        kept = dict(ranked[: self._keep_best])
        if step in kept:
            self._save(self._place(step), weights, step)
        for dropped in self.scores.keys() - kept.keys():
            shutil.rmtree(self._place(dropped), ignore_errors=True)
        self.scores = kept

    def _place(self, step: int) -> Path:
        return self._folder / f"step-{step:08d}"
