"""What a run's folder knows of its parts."""

from pathlib import Path

import pytest

from model.training.run_folder.folder import RunFolder


def test_a_good_checkpoint_is_the_best_else_the_last(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.good_checkpoint is None
    for name in ("last", "best"):
        (folder.checkpoints / name).mkdir(parents=True)
        assert folder.good_checkpoint == folder.checkpoints / name


@pytest.mark.parametrize(("content", "is_ours"), [("", True), ("package-lock 1\n", False)])
def test_a_lock_of_somebody_elses_is_no_sign_of_a_run(tmp_path: Path, content: str, is_ours: bool) -> None:
    (tmp_path / "lock").write_text(content)
    (tmp_path / "translations").mkdir()
    assert RunFolder(tmp_path).foreign_parts == ([] if is_ours else [tmp_path / "translations"])
