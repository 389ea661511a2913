"""What a run's folder knows of its parts."""

from pathlib import Path

from model.training.run_folder import RunFolder


def test_a_good_checkpoint_is_the_best_else_the_last(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.good_checkpoint is None
    for name in ("last", "best"):
        (folder.checkpoints / name).mkdir(parents=True)
        assert folder.good_checkpoint == folder.checkpoints / name
