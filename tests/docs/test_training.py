"""What docs/training.md names is there: recipes, options."""

import re
from pathlib import Path

from model.cli.tune import tune

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/training.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    (found,) = re.findall(rf"^## {re.escape(title)}.*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def test_options_exist_that_the_text_names() -> None:
    """Those of commands in code are checked for every page, by `test_names`."""
    named = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", section("The search")))
    options = {flag for param in tune.params for flag in (*param.opts, *param.secondary_opts)}
    assert named
    assert named - options == set()


def test_recipes_are_named_and_exist() -> None:
    named = set(re.findall(r"([a-z0-9-]+\.toml)\b", section("The goals")))
    assert named == {path.name for path in (ROOT / "examples" / "goals").glob("*.toml")}
