"""What of a line is translated, and what of it is written."""

import pytest

from model.cli.text_files import LineForm, line_end
from model.errors import InputError


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_ends_of_lines_stay(end: str) -> None:
    assert line_end(f" a b {end}") == end
    assert LineForm().source(f"a\tb{end}", "line 1") == f"a\tb{end}"
    assert LineForm(column=2).source(f"a\tb\tc{end}", "line 1") == f"b{end}"
    assert LineForm(column=2).source(end, "line 1") == end


def test_a_missing_column_is_an_error_that_names_the_line() -> None:
    with pytest.raises(InputError, match="line 7 has 2 tab-separated columns, but needs 3"):
        LineForm(column=3).source("a\tb\n", "line 7")


def test_pairs_have_two_columns_whatever_stands_in_them() -> None:
    assert LineForm().rendered("a\tb\n", "c\n") == "c\n"
    assert LineForm(pairs=True).rendered(" a\tb \r\n", "c\td\r\n") == "a b\tc d\n"
