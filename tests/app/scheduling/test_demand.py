"""Who may have how many rows decoded, with a clock that is moved by hand."""

import math

from hypothesis import given
from hypothesis import strategies as st

from app.scheduling.backlog import SPAN_SECONDS, RowQuota

FLOOR = 8


def later(spans: float) -> float:
    return spans * SPAN_SECONDS


def test_who_is_alone_has_all() -> None:
    demand = RowQuota(FLOOR)
    assert demand.allowance(0.0) == math.inf
    for span in range(5):
        demand.rise("greedy", 60, later(span))
        assert demand.allowance(later(span)) == math.inf


def test_a_newcomer_is_taken_for_modest_at_once() -> None:
    demand = RowQuota(FLOOR)
    demand.rise("greedy", 240, later(0))
    demand.rise("greedy", 0, later(1))
    assert demand.allowance(later(1.5)) == math.inf
    demand.rise("other", 240, later(1.5))
    assert demand.allowance(later(1.5)) == FLOOR
    assert demand.allowance(later(2.6)) == 240, "it is as greedy"


def test_nobody_has_more_than_the_least_demanding_wanted() -> None:
    demand = RowQuota(FLOOR)
    for span in range(3):
        demand.rise("greedy", 100, later(span))
        for _ in range(20):
            demand.rise("modest", 12, later(span))
            demand.fall("modest", 12)
    assert demand.allowance(later(2)) == 12


def test_one_that_is_gone_is_forgotten_after_two_spans() -> None:
    demand = RowQuota(FLOOR)
    demand.rise("greedy", 100, later(0))
    demand.rise("modest", 4, later(0.5))
    demand.fall("modest", 4)
    assert demand.allowance(later(0.9)) == FLOOR
    assert demand.allowance(later(1.1)) == FLOOR
    assert demand.allowance(later(2.2)) == math.inf


def test_a_long_silence_is_no_span() -> None:
    demand = RowQuota(FLOOR)
    demand.rise("a", 4, later(0))
    demand.fall("a", 4)
    demand.rise("b", 4, later(100))
    assert demand.allowance(later(100)) == math.inf


STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 50), st.floats(0, 0.7), st.booleans()), max_size=60
)


@given(STEPS)
def test_it_keeps_nothing_of_those_that_are_gone(steps: list[tuple[str, int, float, bool]]) -> None:
    demand, now = RowQuota(FLOOR), 0.0
    open_: list[tuple[str, int]] = []
    for client, rows, wait, ends in steps:
        now += later(wait)
        demand.rise(client, rows, now)
        open_.append((client, rows))
        assert demand.allowance(now) >= FLOOR
        if ends:
            demand.fall(*open_.pop(0))
    for client, rows in open_:
        demand.fall(client, rows)
    assert demand._wanted == {}
    assert demand.allowance(now + later(1)) >= FLOOR
    assert demand.allowance(now + later(2.1)) == math.inf
