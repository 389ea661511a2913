"""Reading and writing lines of files, and the part of a line that is translated."""

import gzip
import io
import os
from pathlib import Path

import pytest

from model.cli.text_files import LineForm, is_file_of, line_end, read_lines, written
from model.errors import InputError


@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_what_was_written_is_read(tmp_path: Path, name: str) -> None:
    lines = ["one\u2028still one\n", "\r\n", "last"]
    with written(str(tmp_path / name)) as file:
        file.writelines(line.encode() for line in lines)
    with (tmp_path / name).open("rb") as file:
        assert list(read_lines(file)) == lines
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")


def test_a_line_that_is_not_utf_8_is_named_in_packed_files_too(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(gzip.compress(b"a\n\xff\n"))
    with (tmp_path / "x").open("rb") as file, pytest.raises(InputError, match="line 2 of the input"):
        list(read_lines(file))


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


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_ends_of_lines_stay(end: str) -> None:
    assert line_end(f" a b {end}") == end
    assert LineForm().source(f"a\tb{end}", "line 1") == f"a\tb{end}"
    assert LineForm(column=2).source(f"a\tb\tc{end}", "line 1") == f"b{end}"
    assert LineForm(column=2).source(end, "line 1") == end
