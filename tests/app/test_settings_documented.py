"""The README's table of settings is what settings.py says; a setting that is not in it fails here."""

import os
from pathlib import Path

from app.settings import GROUPS, default_of, variable

README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- settings: begin -->\n", "<!-- settings: end -->"


def _table() -> str:
    rows = [
        (f"`{variable(name)}`", f"`{default}`" if (default := default_of(field)) else "", field.description)
        for group in GROUPS
        for name, field in group.model_fields.items()
    ]
    return "".join(
        f"| {name} | {default} | {meaning} |\n"
        for name, default, meaning in [("variable", "default", "meaning"), ("---", "---", "---"), *rows]
    )


def test_every_setting_is_in_the_readme() -> None:
    """Run with DRAGOMAN_WRITE_GOLDEN=1 to accept a change."""
    before, begin, rest = README.read_text("utf-8").partition(BEGIN)
    documented, end, after = rest.partition(END)
    assert (begin, end) == (BEGIN, END)
    if os.environ.get("DRAGOMAN_WRITE_GOLDEN"):
        documented = _table()
        README.write_text(before + begin + documented + end + after, "utf-8")
    assert documented == _table()
