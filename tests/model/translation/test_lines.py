"""Lines of files, and the part of a line that is translated."""

import gzip
from pathlib import Path

import pytest

from model.errors import InputError
from model.translation.lines import LineForm, line_end, read_lines


def test_a_line_that_is_not_utf_8_is_named_in_packed_files_too(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(gzip.compress(b"a\n\xff\n"))
    with (tmp_path / "x").open("rb") as file, pytest.raises(InputError, match="line 2 of the input"):
        list(read_lines(file))


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_ends_of_lines_stay(end: str) -> None:
    assert line_end(f" a b {end}") == end
    assert LineForm().source(f"a\tb{end}", "line 1") == f"a\tb{end}"
    assert LineForm(column=2).source(f"a\tb\tc{end}", "line 1") == f"b{end}"
    assert LineForm(column=2).source(end, "line 1") == end
