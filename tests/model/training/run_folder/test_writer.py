from pathlib import Path

import pytest

from model.training.run_folder.writer import CheckpointRetention


def fill(folder: Path, scores: list[float | None], keep_best: int) -> tuple[dict[str, int], dict[int, float]]:
    """The step of each folder that is kept, and the scores, after a checkpoint for each score."""
    retention = CheckpointRetention(folder, keep_best)
    best: float | None = None
    for step, score in enumerate(scores, start=1):

        def save(place: Path, step: int = step) -> None:
            place.mkdir(parents=True, exist_ok=True)
            (place / "step").write_text(str(step))

        is_best = score is not None and (best is None or score > best)
        best = score if is_best else best
        retention.put(step, score, save, is_best=is_best)
    return {path.name: int((path / "step").read_text()) for path in folder.iterdir()}, retention.scores


@pytest.mark.parametrize(
    ("scores", "keep_best", "kept", "kept_scores"),
    [
        (
            [10.0, 30.0, 20.0, 5.0],
            2,
            {"last": 4, "best": 2, "step-00000002": 2, "step-00000003": 3},
            {2: 30.0, 3: 20.0},
        ),
        ([10.0, 5.0], 0, {"last": 2, "best": 1}, {}),
        ([None, None], 3, {"last": 2}, {}),
    ],
)
def test_last_best_and_the_n_best_are_kept(
    tmp_path: Path,
    scores: list[float | None],
    keep_best: int,
    kept: dict[str, int],
    kept_scores: dict[int, float],
) -> None:
    assert fill(tmp_path, scores, keep_best) == (kept, kept_scores)
