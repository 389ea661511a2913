"""docs/settings.md has the table of settings of app/settings.py; the README names every variable."""

import os
from pathlib import Path

from app.settings import GROUPS, default_of, variable

ROOT = Path(__file__).parents[2]
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


def _names() -> str:
    names = [f"`{variable(name)}`" for group in GROUPS for name in group.model_fields]
    return ",\n".join(", ".join(names[i : i + 4]) for i in range(0, len(names), 4)) + ".\n"


def _check(page: Path, expected: str) -> None:
    """Run with DRAGOMAN_WRITE_GOLDEN=1 to accept a change."""
    before, begin, rest = page.read_text("utf-8").partition(BEGIN)
    documented, end, after = rest.partition(END)
    assert (begin, end) == (BEGIN, END)
    if os.environ.get("DRAGOMAN_WRITE_GOLDEN"):
        documented = expected
        page.write_text(before + begin + documented + end + after, "utf-8")
    assert documented == expected


def test_every_setting_is_documented_as_it_is() -> None:
    _check(ROOT / "docs/settings.md", _table())


def test_the_readme_names_every_variable() -> None:
    _check(ROOT / "README.md", _names())
