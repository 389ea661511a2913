"""The goals: each has a recipe that trains its direction, and a test set that no recipe reads."""

import click
import pytest

from benchmarks.goals.catalogue import GOALS, Goal, goals_of, trained_goals
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


def test_the_name_of_a_model_is_that_of_one_of_its_goals() -> None:
    assert {goal.model for goal in GOALS} <= {goal.name for goal in GOALS}


def test_a_goal_stands_for_those_of_its_model_that_are_trained_and_for_none_without_itself() -> None:
    both = (("en", "de"), ("de", "en"))
    assert trained_goals("multi30k-de-en", both) == goals_of("multi30k-de-en")
    assert [goal.name for goal in trained_goals("multi30k-en-de", both[:1])] == ["multi30k-en-de"]
    for name, pairs, shown in (
        ("multi30k-de-en", both[:1], "en→de"),
        ("multi30k-en-de", both[1:], "de→en"),
        ("tatoeba-en-fr", both, "en→de, de→en"),
    ):
        with pytest.raises(click.UsageError, match=rf"GOAL must be .*\({shown}\), but is '{name}'"):
            trained_goals(name, pairs)
