"""Large files in and out, plain or packed, and what an interruption leaves."""

import gzip
from contextlib import suppress
from pathlib import Path

import pytest

from model.cli.text_files import ResumableFile, read_lines, written
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
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"a\n\xff\n"))
    with (tmp_path / "x.gz").open("rb") as file, pytest.raises(InputError, match="line 2 of the input"):
        list(read_lines(file))


def test_nothing_is_whole_before_its_end(tmp_path: Path) -> None:
    path = tmp_path / "out"
    unfinished = ResumableFile(path)
    assert (unfinished.lines, unfinished.is_whole) == (0, False)
    with suppress(RuntimeError), unfinished.appended() as file:
        file.write(b"one\ntw")
        raise RuntimeError
    assert not path.exists()
    again = ResumableFile(path)
    assert (again.lines, again.is_whole) == (1, False)
    with again.appended() as file:
        file.write(b"two\n")
    assert path.read_bytes() == b"one\ntwo\n"
    assert ResumableFile(path).is_whole


def test_a_kill_between_packing_and_tidying_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "out.gz"
    with ResumableFile(path).appended() as file:
        file.write(b"one\n")
    (tmp_path / "out.gz.part").write_bytes(b"one\n")
    again = ResumableFile(path)
    assert (again.lines, again.is_whole) == (1, False)
    with again.appended():
        pass
    assert gzip.decompress(path.read_bytes()) == b"one\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.gz"]
