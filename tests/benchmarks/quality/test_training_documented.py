"""What docs/training.md names is there: goals, recipes, experiments, options, settings, sections."""

import re
from pathlib import Path

import click
import pytest

from benchmarks.quality.experiments import main as experiments
from benchmarks.quality.goals import GOALS
from benchmarks.quality.goals import main as goals
from model.cli.translate import translate
from model.cli.tune import tune

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    (found,) = re.findall(rf"^## {re.escape(title)}.*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def options(*commands: click.Command) -> set[str]:
    params = [param for command in commands for param in command.params]
    return {flag for param in params for flag in (*param.opts, *param.secondary_opts)}


@pytest.mark.parametrize(
    ("title", "commands"),
    [
        ("Trying changes", (experiments,)),
        ("The goals", (goals,)),
        ("The search", (tune,)),
        ("A small model", (translate,)),
        ("Text in one language", (translate,)),
    ],
)
def test_options_exist(title: str, commands: tuple[click.Command, ...]) -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", section(title)))
    assert named
    assert named - options(*commands) == set()


def test_recipes_and_experiments_are_named_and_exist() -> None:
    for title, folder in (("The goals", "goals"), ("Trying changes", "experiments")):
        named = set(re.findall(r"([a-z0-9-]+\.toml)\b", section(title)))
        assert named == {path.name for path in (ROOT / "examples" / folder).glob("*.toml")}, title


def test_goals_that_are_named_exist() -> None:
    named = set(re.findall(r"GOAL=([\w-]+)|`((?:multi30k|tatoeba)-\w\w-\w\w)`", PAGE))
    names = {name for found in named for name in found if name}
    assert names
    assert names <= {goal.name for goal in GOALS}


def test_links_inside_the_page_lead_somewhere() -> None:
    titles = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(re.findall(r"\(#([^)]*)\)", PAGE)) <= anchors
