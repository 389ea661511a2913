"""The files of a run, and that nothing else is overwritten."""

import gc
import logging
import shutil
import sys
from pathlib import Path

import pytest

from model.errors import CorpusError, TrainingError
from model.training.config_sections import RunConfig
from model.training.run import open_run
from model.training.run_folder.folder import (
    Progress,
    RunFolder,
    RunLog,
    Translations,
    completed_share,
    time_left,
)
from model.training.validation import TranslatedText
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
    config = tiny_run(tmp_path, run={"max_steps": 1})
    first = open_run(config)
    with pytest.raises(TrainingError, match="another process trains in"):
        open_run(config, resume=True)
    first.run()
    open_run(config, resume=True)


def test_a_run_that_is_never_run_releases_its_lock_when_it_is_deleted(tmp_path: Path) -> None:
    forgotten = open_run(tiny_run(tmp_path))
    del forgotten
    gc.collect()
    open_run(tiny_run(tmp_path))


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


def test_the_working_directory_may_be_a_runs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert RunFolder(Path()).foreign_parts == []
    (tmp_path / "config.json").touch()
    assert RunFolder(Path()).foreign_parts == [Path("config.json")]


def test_a_run_that_failed_early_can_begin_again_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    config = tiny_run(tmp_path)
    corpus = Path(config.corpora[0].path)
    text = corpus.read_text()
    corpus.write_text("")
    with pytest.raises(CorpusError):
        open_run(config)
    corpus.write_text(text)
    open_run(config)


def test_a_run_from_before_there_were_locks_resumes(copied_run: Path) -> None:
    lock = copied_run / "run/lock"
    lock.unlink()
    with pytest.raises(TrainingError, match="holds a run already"):
        open_run(tiny_run(copied_run))
    assert lock.exists()
    lock.unlink()
    open_run(tiny_run(copied_run), resume=True)


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


def test_a_line_cut_short_by_a_kill_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    log = RunLog(RunFolder(tmp_path))
    log.record("update", 1, {})
    file.write_text(file.read_text() + '{"kind": "upd')
    log.rewind(5, validated_step=0)
    log.record("update", 2, {})
    assert [event["step"] for event in log.events()] == [1, 2]


@pytest.mark.parametrize("line", [b"\0\0\0", b"\xff", b"[1]", b'{"kind": "update"}'])
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes) -> None:
    log = RunLog(RunFolder(tmp_path))
    log.record("update", 1, {})
    with (tmp_path / "log.jsonl").open("ab") as file:
        file.write(line + b"\n")
    log.record("update", 2, {})
    with pytest.raises(TrainingError, match=r"log\.jsonl:2: not an event of a run"):
        log.events()


def test_tensorboard_writes_event_files(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    log = RunLog(RunFolder(tmp_path), tensorboard=True)
    log.record("update", 1, {"loss": 2.5})
    log.record("update", 2, {"loss": 2.0, "samples": ["a"]})
    log.close()
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    points = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert points.Tags()["scalars"] == ["update/loss"]
    assert [(point.step, point.value) for point in points.Scalars("update/loss")] == [(1, 2.5), (2, 2.0)]


def translations(step: int) -> Translations:
    text = TranslatedText("en", "fr", ("a",), ("b",), (f"translated at {step} · <b>\u2028",))
    return Translations(step, (text,))


@pytest.mark.parametrize(
    ("validated_step", "left"), [(30, (10, 20)), (20, (10, 20)), (15, (10, None)), (5, (None, None))]
)
def test_the_first_and_the_best_translations_are_kept_unless_they_will_be_repeated(
    tmp_path: Path, validated_step: int, left: tuple[int | None, ...]
) -> None:
    log = RunLog(RunFolder(tmp_path))
    for step, is_best in ((10, True), (20, True), (30, False)):
        log.keep(translations(step), is_best=is_best)
    log.rewind(30, validated_step)
    kept = log.translations("first"), log.translations("best")
    assert kept == tuple(None if step is None else translations(step) for step in left)


@pytest.mark.parametrize(("reached", "share"), [((10, 5, 1), 0.5), ((90, 5, 1), 0.9), ((0, 50, 0), 1)])
def test_the_limit_nearest_to_its_end_says_how_far_the_run_is(
    reached: tuple[int, float, float], share: float
) -> None:
    assert completed_share(RunConfig(max_steps=100, max_minutes=10, max_epochs=4), *reached) == share


@pytest.mark.parametrize(
    ("before", "now", "left"), [(0.5, 0.75, "1:02:05"), (0.0, 1.0, "0:00:00"), (0.5, 0.5, "?")]
)
def test_time_left_goes_by_the_pace_since_the_start(before: float, now: float, left: str) -> None:
    assert time_left(before, now, seconds=3725) == left


def test_without_a_terminal_progress_is_lines_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    values = {"loss": 2.5, "learning_rate": 1e-3, "tokens_per_second": 4321.0}
    progress = Progress(RunConfig(max_steps=10))
    with caplog.at_level(logging.INFO, "model"), progress.shown():
        progress.show(5, 0.1, 0.25, values)
    assert "step 5, epoch 0.25: loss 2.500, rate 1.00e-03, 4,321 tokens/s, ? left" in caplog.text


def test_without_standard_error_no_bar_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert Progress(RunConfig(max_steps=10))._bar.disable
