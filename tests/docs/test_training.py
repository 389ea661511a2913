"""What docs/training.md names of the benchmarks is there: goals, recipes, options."""

import re
from pathlib import Path

import click
import pytest

from benchmarks.quality.goals import GOALS
from benchmarks.quality.goals import main as goals
from model.cli.tune import tune

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/training.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    (found,) = re.findall(rf"^## {re.escape(title)}.*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.mark.parametrize(("title", "command"), [("The goals", goals), ("The search", tune)])
def test_options_exist_that_the_text_names(title: str, command: click.Command) -> None:
    """Those of commands in code are checked for every page, by `test_names`."""
    named = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", section(title)))
    options = {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)}
    assert named
    assert named - options == set()


def test_recipes_are_named_and_exist() -> None:
    named = set(re.findall(r"([a-z0-9-]+\.toml)\b", section("The goals")))
    assert named == {path.name for path in (ROOT / "examples" / "goals").glob("*.toml")}


def test_goals_that_are_named_exist() -> None:
    named = set(re.findall(r"GOAL=([\w-]+)|`((?:multi30k|tatoeba)-\w\w-\w\w)`", PAGE))
    names = {name for found in named for name in found if name}
    assert names
    assert names <= {goal.name for goal in GOALS}
