"""A path stands for the checkpoint it is, or for those in it."""

from pathlib import Path

from model.discovery import checkpoint_folders


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
    assert checkpoint_folders(tmp_path) == [one, two]
    assert checkpoint_folders(tmp_path / "c") == []


def test_what_is_not_there_is_left_to_the_loader(tmp_path: Path) -> None:
    assert checkpoint_folders(tmp_path / "nowhere") == [tmp_path / "nowhere"]
