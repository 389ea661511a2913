"""Who may have how many rows decoded, with a clock that is moved by hand."""

import math

from hypothesis import given
from hypothesis import strategies as st

from app.scheduling.backlog import SPAN_SECONDS, RowQuota

MINIMUM = 8


def later(spans: float) -> float:
    return spans * SPAN_SECONDS


def test_who_is_alone_has_all() -> None:
    quota = RowQuota(MINIMUM)
    assert quota.limit(0.0) == math.inf
    for span in range(5):
        quota.add("greedy", 60, later(span))
        assert quota.limit(later(span)) == math.inf


def test_a_newcomer_is_taken_for_modest_at_once() -> None:
    quota = RowQuota(MINIMUM)
    quota.add("greedy", 240, later(0))
    quota.add("greedy", 0, later(1))
    assert quota.limit(later(1.5)) == math.inf
    quota.add("other", 240, later(1.5))
    assert quota.limit(later(1.5)) == MINIMUM
    assert quota.limit(later(2.6)) == 240, "it is as greedy"


def test_nobody_has_more_than_the_least_demanding_wanted() -> None:
    quota = RowQuota(MINIMUM)
    for span in range(3):
        quota.add("greedy", 100, later(span))
        for _ in range(20):
            quota.add("modest", 12, later(span))
            quota.remove("modest", 12)
    assert quota.limit(later(2)) == 12


def test_one_that_is_gone_is_forgotten_after_two_spans() -> None:
    quota = RowQuota(MINIMUM)
    quota.add("greedy", 100, later(0))
    quota.add("modest", 4, later(0.5))
    quota.remove("modest", 4)
    assert quota.limit(later(0.9)) == MINIMUM
    assert quota.limit(later(1.1)) == MINIMUM
    assert quota.limit(later(2.2)) == math.inf


def test_a_long_silence_is_no_span() -> None:
    quota = RowQuota(MINIMUM)
    quota.add("a", 4, later(0))
    quota.remove("a", 4)
    quota.add("b", 4, later(100))
    assert quota.limit(later(100)) == math.inf


STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 50), st.floats(0, 0.7), st.booleans()), max_size=60
)


@given(STEPS)
def test_it_keeps_nothing_of_those_that_are_gone(steps: list[tuple[str, int, float, bool]]) -> None:
    quota, now = RowQuota(MINIMUM), 0.0
    open_: list[tuple[str, int]] = []
    for client, rows, wait, ends in steps:
        now += later(wait)
        quota.add(client, rows, now)
        open_.append((client, rows))
        assert quota.limit(now) >= MINIMUM
        if ends:
            quota.remove(*open_.pop(0))
    for client, rows in open_:
        quota.remove(client, rows)
    assert quota._wanted == {}
    assert quota.limit(now + later(1)) >= MINIMUM
    assert quota.limit(now + later(2.1)) == math.inf
