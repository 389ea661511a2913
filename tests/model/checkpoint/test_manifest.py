"""A path stands for the checkpoint it is, or for those in it."""

import errno
import os
from pathlib import Path

import pytest

from model.checkpoint.manifest import (
    checkpoint_folders,
    good_checkpoint,
    is_run_folder,
    run_folders,
    served_folders,
)
from model.errors import ConfigError


def make(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").touch()
    return folder


def test_a_checkpoint_is_itself(tmp_path: Path) -> None:
    make(tmp_path / "a" / "inner")
    (tmp_path / "a" / "config.json").touch()
    assert checkpoint_folders(tmp_path / "a") == [tmp_path / "a"]


def test_a_folder_stands_for_the_checkpoints_in_it(tmp_path: Path) -> None:
    two, one = make(tmp_path / "b"), make(tmp_path / "a")
    make(tmp_path / ".b.writing")
    (tmp_path / "c").mkdir()
    (tmp_path / "file").touch()
    assert checkpoint_folders(tmp_path) == served_folders([tmp_path]) == [one, two]
    assert served_folders([two]) == [two]
    assert checkpoint_folders(tmp_path / "c") == []


def test_what_only_others_may_read_is_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `lost+found` at the root of a volume."""
    good = make(tmp_path / "good")
    (tmp_path / "lost+found").mkdir()

    def stat(path: object, **_: object) -> os.stat_result:
        if "lost+found/" in str(path):
            raise PermissionError(errno.EACCES, "Permission denied")
        return original(path)  # type: ignore[call-overload]

    original = os.stat
    monkeypatch.setattr(os, "stat", stat)
    assert checkpoint_folders(tmp_path) == [good]
    assert run_folders(tmp_path) == []


def test_what_is_not_there_is_left_to_the_loader(tmp_path: Path) -> None:
    assert checkpoint_folders(tmp_path / "nowhere") == [tmp_path / "nowhere"]


@pytest.mark.parametrize(
    ("config", "is_run"),
    [('{"corpora": []}', True), ('{"format_version": 1, "corpora": []}', False), ("{}", False), ("[", False)],
)
def test_a_runs_folder_is_known_by_its_configuration(tmp_path: Path, config: str, is_run: bool) -> None:
    assert not is_run_folder(tmp_path)
    (tmp_path / "config.json").write_text(config)
    assert is_run_folder(tmp_path) is is_run


def test_folders_of_runs_are_no_checkpoints_but_broken_checkpoints_are(tmp_path: Path) -> None:
    run, broken = make(tmp_path / "run"), make(tmp_path / "broken")
    (run / "config.json").write_text('{"corpora": []}')
    assert checkpoint_folders(tmp_path) == [broken]
    assert checkpoint_folders(run) == [run]  # which the loader explains
    assert run_folders(tmp_path) == [run]
    assert run_folders(tmp_path / "nowhere") == []


def test_the_good_checkpoint_of_a_run_is_the_best_else_the_last(tmp_path: Path) -> None:
    assert good_checkpoint(tmp_path) is None
    for name in ("last", "best"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
        assert good_checkpoint(tmp_path) == tmp_path / "checkpoints" / name


@pytest.mark.parametrize("name", ["", "missing"])
def test_a_folder_without_a_checkpoint_is_refused_with_the_missing_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"`checkpoint` must be a checkpoint folder \(with config\.json\)"):
        served_folders([tmp_path / name])
