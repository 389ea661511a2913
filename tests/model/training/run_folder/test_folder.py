"""The files of a run, and that nothing else is overwritten."""

import gc
import shutil
from pathlib import Path

import pytest

from model.errors import CorpusError, TrainingError
from model.training.run import open_run
from model.training.run_folder.folder import RunFolder
from tests.model.training.tiny_runs import tiny_run


@pytest.mark.parametrize(("content", "is_ours"), [("", True), ("package-lock 1\n", False)])
def test_a_lock_file_of_another_program_is_no_run(tmp_path: Path, content: str, is_ours: bool) -> None:
    (tmp_path / "lock").write_text(content)
    (tmp_path / "translations").mkdir()
    assert RunFolder(tmp_path).foreign_parts == ([] if is_ours else [tmp_path / "translations"])


@pytest.mark.parametrize("resume", [False, True])
def test_results_without_their_state_are_not_overwritten(copied_run: Path, resume: bool) -> None:
    shutil.rmtree(copied_run / "run/state")
    with pytest.raises(TrainingError, match="holds checkpoints, but no state to go on from: remove it"):
        open_run(tiny_run(copied_run), resume=resume)


def test_one_process_at_a_time_trains_in_a_folder(tmp_path: Path) -> None:
    first = open_run(tiny_run(tmp_path))
    with pytest.raises(TrainingError, match="another process trains in"):
        open_run(tiny_run(tmp_path), resume=True)
    first.run()
    open_run(tiny_run(tmp_path), resume=True).run()


def test_a_run_that_is_never_run_releases_its_lock_when_it_is_deleted(tmp_path: Path) -> None:
    forgotten = open_run(tiny_run(tmp_path))
    del forgotten
    gc.collect()
    assert open_run(tiny_run(tmp_path)).run() == "max_steps"


def test_files_that_no_run_has_written_are_not_overwritten(tmp_path: Path) -> None:
    others = [
        tmp_path / "data/train/pairs.tsv",
        tmp_path / "config.json",
        tmp_path / "tokenizer/tokenizer.model",
    ]
    for file in others:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine")
    for resume in (False, True):
        with pytest.raises(
            TrainingError, match=r"holds config\.json, data, tokenizer, which no run has written"
        ):
            open_run(tiny_run(tmp_path, run={"folder": str(tmp_path)}), resume=resume)
    assert [file.read_text() for file in others] == ["mine"] * 3
    assert not (tmp_path / "lock").exists()


def test_a_run_that_failed_early_can_begin_again_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    config = tiny_run(tmp_path)
    corpus = Path(config.corpora[0].path)
    text = corpus.read_text()
    corpus.write_text("")
    with pytest.raises(CorpusError):
        open_run(config)
    corpus.write_text(text)
    assert open_run(config).run() == "max_steps"


def test_a_run_from_before_there_were_locks_resumes(copied_run: Path) -> None:
    lock = copied_run / "run/lock"
    lock.unlink()
    with pytest.raises(TrainingError, match="holds a run already"):
        open_run(tiny_run(copied_run))
    assert lock.exists()
    lock.unlink()
    open_run(tiny_run(copied_run, run={"max_steps": 9}), resume=True).run()


def test_a_refused_run_leaves_no_folder_that_it_made(tmp_path: Path) -> None:
    config = tiny_run(tmp_path)
    folder = Path(config.run.folder)
    (tmp_path / "train.tsv").unlink()
    with pytest.raises(CorpusError, match="no such file"):
        open_run(config)
    assert not folder.exists()
    folder.mkdir()
    with pytest.raises(CorpusError, match="no such file"):
        open_run(config)
    assert folder.exists()
