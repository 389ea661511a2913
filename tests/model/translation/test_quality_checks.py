"""What looks broken, and what only looks like it."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from model.decode_request import Hypothesis
from model.translation.quality_checks import Kind, diagnose

SOURCE = "a b c d"
SOURCE_IDS = (40, 41, 42, 43, 1)


def best(ids: tuple[int, ...], *, finished: bool = True) -> Hypothesis:
    return Hypothesis(ids, -1.0, -1.0, (), finished)


def kind_of(source: str, source_ids: tuple[int, ...], hypothesis: Hypothesis, text: str) -> Kind | None:
    return diagnose(source, source_ids, hypothesis, text, "fr")


@pytest.mark.parametrize(
    ("ids", "text", "finished", "kind"),
    [
        ((5, 6, 7), "x y z", False, "unfinished"),
        ((5,) * 60, "x x x", False, "loop"),
        ((), "", True, "empty"),
        ((5,), " ", True, "empty"),
    ],
)
def test_the_length_limit_and_nothing_at_all(
    ids: tuple[int, ...], text: str, finished: bool, kind: str | None
) -> None:
    assert kind_of(SOURCE, SOURCE_IDS, best(ids, finished=finished), text) == kind


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("where is the next station?", "copy"),
        ("don't you like well-known songs, then?", "copy"),
        ("昨日友達と映画を見ました", "copy"),
        ("restaurant", None),
        ("menu du restaurant", None),
        ("John Smith, New York, Los Angeles, Houston", None),
        ("HELLO MY DEAR OLD FRIEND", None),
        ("12 + 30 = 42, 5 km, 7 kg", None),
        ("https://example.org/where/is/the/next/station", None),
        ("user_name = get_user_name(user.id)", None),
        ("東京", None),
    ],
)
def test_a_copy_has_words_that_need_translating(source: str, kind: str | None) -> None:
    assert kind_of(source, tuple(range(9)), best(tuple(range(7))), source) == kind
    assert kind_of(source, tuple(range(9)), best(tuple(range(7))), source + " !") is None


@pytest.mark.parametrize(
    ("source_length", "length", "kind"),
    [(5, 30, None), (5, 31, "length"), (50, 120, None), (50, 121, "length"), (16, 1, None), (17, 1, "length"),
     (70, 10, None), (71, 10, "length")],
)  # fmt: skip
def test_lengths_have_wide_bounds(source_length: int, length: int, kind: str | None) -> None:
    ids = tuple(range(length))
    assert kind_of(SOURCE, tuple(range(source_length)), best(ids), "w x y z") == kind


@pytest.mark.parametrize(
    ("source", "text", "kind"),
    [
        ("a (b) c", "x (y) z", None),
        ("a (b) c", "x（y）z", None),
        ("a (b) (c)", "x (y z)", None),
        ("a (b) c", "x (y z", "brackets"),
        ("a (b) c", "x y) z", "brackets"),
        ("a (b) c", "x y z", "brackets"),
        ("a（b）c", "x (y z", "brackets"),
        ("1) a", "1 x", None),
        ("a :)", "x", None),
        ("a b", "x (y", None),
    ],
)
def test_brackets_come_in_pairs_if_those_of_the_source_do(source: str, text: str, kind: str | None) -> None:
    assert kind_of(source, SOURCE_IDS, best((5, 6, 7)), text) == kind


@pytest.mark.parametrize(
    ("source", "text", "language", "kind"),
    [
        ("The table.", "La (太) table.", "fr", "script"),
        ("The table.", "La tаble.", "fr", "script"),  # the second a is Cyrillic
        ("The 太 table.", "La 太 table.", "fr", None),
        ("The table.", "La œuvre, ça.", "fr", None),
        ("The table.", "太太太", "fr", None),  # nothing else: perhaps the language is written so
        ("Hello Anna.", "你好，Anna。", "zh", None),
        ("Hello Anna.", "你好，Анна。", "zh", "script"),
        ("Hello Anna.", "Anna 太.", "xx", None),
    ],
)
def test_letters_of_another_script_are_those_of_the_source(
    source: str, text: str, language: str, kind: str | None
) -> None:
    assert diagnose(source, SOURCE_IDS, best((5, 6, 7)), text, language) == kind


def tokens(most: int) -> st.SearchStrategy[list[int]]:
    """Groups of up to five tokens, each up to `most` times in a row."""
    groups = st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.integers(1, most))
    return st.lists(groups, max_size=3).map(lambda each: [i for group, count in each for i in group * count])


@given(tokens(9), tokens(2))
@example([0, 1, 2, 3] * 4, [])
@example([1, 0, 0, 0, 0], [])
@example([0] * 8, [0] * 4)
def test_a_loop_is_up_to_four_tokens_four_times_in_a_row_and_more_than_twice_as_often_as_in_the_source(
    ids: list[int], source_ids: list[int]
) -> None:
    most, most_in_source = repetitions(ids), repetitions(source_ids)
    for finished in (True, False):
        found = kind_of(SOURCE, source_ids, best(tuple(ids), finished=finished), "w x y z") == "loop"
        assert found == (most >= 4 and most > 2 * most_in_source)


def repetitions(ids: list[int]) -> int:
    """How often a group of up to four comes in a row at most, by trying all."""
    most = 1
    for size in range(1, 5):
        for start in range(len(ids) - size + 1):
            count = 1
            while ids[start + count * size : start + (count + 1) * size] == ids[start : start + size]:
                count += 1
            most = max(most, count)
    return most
