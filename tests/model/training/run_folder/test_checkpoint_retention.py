from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from model.training.run_folder.checkpoint_retention import CheckpointShelf


def save(folder: Path, weights: Mapping[str, Tensor], step: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "step").write_text(str(step))


def standing(folder: Path) -> dict[str, int]:
    return {path.name: int((path / "step").read_text()) for path in folder.iterdir()}


def fill(folder: Path, scores: list[float | None], keep_best: int) -> CheckpointShelf:
    shelf = CheckpointShelf(folder, save, keep_best)
    best: float | None = None
    for step, score in enumerate(scores, start=1):
        is_best = score is not None and (best is None or score > best)
        best = score if is_best else best
        shelf.put(step, {"w": torch.zeros(1)}, score, is_best=is_best)
    return shelf


def test_last_best_and_the_n_best_are_kept(tmp_path: Path) -> None:
    shelf = fill(tmp_path, [10.0, 30.0, 20.0, 5.0], keep_best=2)
    assert standing(tmp_path) == {"last": 4, "best": 2, "step-00000002": 2, "step-00000003": 3}
    assert shelf.scores == {2: 30.0, 3: 20.0}


def test_without_n_best_only_last_and_best(tmp_path: Path) -> None:
    fill(tmp_path, [10.0, 5.0], keep_best=0)
    assert standing(tmp_path) == {"last": 2, "best": 1}


def test_without_scores_only_the_last(tmp_path: Path) -> None:
    fill(tmp_path, [None, None], keep_best=3)
    assert standing(tmp_path) == {"last": 2}
