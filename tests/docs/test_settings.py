"""docs/settings.md has the table of settings of app/settings.py; the README names every variable."""

from pathlib import Path

from app.settings import GROUPS, default_of, variable
from tests.docs.tables import assert_is_in

ROOT = Path(__file__).parents[2]


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


def test_every_setting_is_documented_as_it_is() -> None:
    assert_is_in(ROOT / "docs/settings.md", "settings", _table())


def test_the_readme_names_every_variable() -> None:
    assert_is_in(ROOT / "README.md", "settings", _names())
