"""The list of inputs: whether it asks what it says it asks."""

import re
from collections import Counter

from tests.checkpoints.everyday import all_inputs
from tests.checkpoints.test_everyday import core
from tests.embedded import RECIPE

COLUMNS = ("en", "fr", "de", "es", "zh")
# A word or a greeting, which the training examples may have as well.
SHORT = re.compile(r"[\u4e00-\u9fff]{1,3}|[^\W\u4e00-\u9fff]+(?: [^\W\u4e00-\u9fff]+)?")


def phrases() -> set[tuple[str, str]]:
    """Language and text of everything in the training examples."""
    lines = (RECIPE / "phrases.tsv").read_text("utf-8").splitlines()
    return {
        (code, core(text)) for line in lines for code, text in zip(COLUMNS, line.split("\t"), strict=True)
    }


def test_it_asks_something_of_each_of_eight_directions() -> None:
    directions = Counter(each.pair for each in all_inputs())
    others = COLUMNS[1:]
    assert set(directions) == {("en", code) for code in others} | {(code, "en") for code in others}
    assert min(directions.values()) >= 15


def test_no_phrase_is_one_that_was_trained_on() -> None:
    asked = {(each.pair[0], core(each.text)) for each in all_inputs() if not SHORT.fullmatch(core(each.text))}
    assert asked & phrases() == set()
