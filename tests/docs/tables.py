"""Tables of the documentation that the code generates."""

import os
from pathlib import Path


def assert_is_in(page: Path, name: str, table: str) -> None:
    """Between the marks of this name is this table; DRAGOMAN_WRITE_GOLDEN=1 writes it, to accept a change."""
    marks = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, begin, rest = page.read_text("utf-8").partition(marks[0])
    documented, end, after = rest.partition(marks[1])
    assert (begin, end) == marks
    if os.environ.get("DRAGOMAN_WRITE_GOLDEN"):
        documented = table
        page.write_text(before + begin + documented + end + after, "utf-8")
    assert documented == table
