"""Writing files, and telling which file is which."""

import io
import os
from pathlib import Path

import pytest

from model.cli.text_files import is_file_of, written
from model.translation.text_lines import read_lines


@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_what_was_written_is_read(tmp_path: Path, name: str) -> None:
    lines = ["one\u2028still one\n", "\r\n", "last"]
    with written(str(tmp_path / name)) as file:
        file.writelines(line.encode() for line in lines)
    with (tmp_path / name).open("rb") as file:
        assert list(read_lines(file)) == lines
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")


def test_a_file_is_known_by_what_is_read_not_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "one").touch()
    (tmp_path / "link").symlink_to("one")
    (tmp_path / "other").touch()
    with (tmp_path / "one").open("rb") as file:
        names = ("one", "link", "other", "none")
        assert [is_file_of(file, tmp_path / name) for name in names] == [True, True, False, False]
    assert [is_file_of(tmp_path / "one", tmp_path / name) for name in names] == [True, True, False, False]
    with open(os.devnull, "rb") as device:
        assert not is_file_of(device, Path(os.devnull))
    assert not is_file_of(io.BytesIO(), tmp_path / "one")
