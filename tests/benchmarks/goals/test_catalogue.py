"""The goals: each has a recipe that trains its direction, and a test set that no recipe reads."""

import click
import pytest

from benchmarks.goals.catalogue import GOALS, Goal, goals_of
from benchmarks.recipes import read_recipe


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.name)
def test_a_recipe_trains_the_direction_and_never_sees_the_test(goal: Goal) -> None:
    config = read_recipe(goal.recipe, {})
    assert (goal.source, goal.target) in config.pairs
    read = {corpus.path for corpus in (*config.corpora, *config.validation_corpora)}
    assert not any(path.endswith(test) for path in read for test in goal.test)


def test_a_name_of_a_goal_or_a_model_stands_for_the_whole_model() -> None:
    names = ["multi30k-de-en", "multi30k-en-de"]
    for name in names:
        assert [goal.name for goal in goals_of(name)] == names
    assert [goal.name for goal in goals_of("tatoeba-zh-en")] == ["tatoeba-en-zh", "tatoeba-zh-en"]
    with pytest.raises(click.UsageError, match="one of multi30k-de-en, "):
        goals_of("wmt")


def test_names_are_different() -> None:
    assert len({goal.name for goal in GOALS}) == len(GOALS) == 12
