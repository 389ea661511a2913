from pathlib import Path

import pytest

from model.checkpoint.paths import served_folders
from model.errors import ConfigError


def test_a_folder_of_checkpoints_stands_for_all_of_them(tmp_path: Path) -> None:
    for name in ("b", "a", ".half-written", "not-one"):
        (tmp_path / name).mkdir()
    for name in ("b", "a", ".half-written"):
        (tmp_path / name / "config.json").touch()
    assert served_folders([tmp_path]) == [tmp_path / "a", tmp_path / "b"]
    assert served_folders([tmp_path / "b"]) == [tmp_path / "b"]


@pytest.mark.parametrize("name", ["", "missing"])
def test_a_folder_without_any_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="checkpoint"):
        served_folders([tmp_path / name])
