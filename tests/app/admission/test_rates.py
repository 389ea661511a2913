"""How often a client may ask, by a clock that is moved by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.admission.rates import RateLimit, parse_rate
from app.errors import RateExceededError
from tests.app.admission.test_gate import Clock


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("100/minute", (100, 60)),
        ("5 per 10 seconds", (5, 10)),
        ("1/Hour", (1, 3600)),
        (" 10 / 2 days ", (10, 172_800)),
        ("0/minute", None),
        ("often", None),
        ("10", None),
        ("10/0 minutes", None),
        ("-1/second", None),
        ("1/fortnight", None),
        ("1/minute;drop", None),
    ],
)
def test_how_rates_are_written(text: str, rate: tuple[int, int] | None) -> None:
    assert parse_rate(text) == rate


def test_a_refusal_says_when_the_next_request_will_be_served() -> None:
    clock = Clock()
    limit = RateLimit("2/minute", clock)
    limit.charge("a")
    clock.now += 20
    limit.charge("a")
    limit.charge("b")
    with pytest.raises(RateExceededError) as refused:
        limit.charge("a")
    assert refused.value.retry_after in (40, 41)
    clock.now += refused.value.retry_after
    limit.charge("a")
    with pytest.raises(RateExceededError):
        limit.charge("a")


@given(st.integers(1, 5), st.lists(st.floats(0, 15), max_size=60))
def test_no_window_holds_more_than_the_rate_and_no_request_is_refused_for_nothing(
    most: int, pauses: list[float]
) -> None:
    clock = Clock()
    limit = RateLimit(f"{most} per 10 seconds", clock)
    served: list[float] = []
    for pause in pauses:
        clock.now += pause
        try:
            limit.charge("a")
        except RateExceededError:
            assert sum(clock.now - each <= 10.002 for each in served) >= most
        else:
            served.append(clock.now)
            assert sum(clock.now - each < 9.998 for each in served) <= most


def test_clients_without_recent_requests_are_forgotten_and_no_others() -> None:
    clock = Clock()
    limit = RateLimit("2/second", clock)
    limit.charge("busy")
    clock.now += 0.9
    limit.charge("busy")
    for number in range(5000):
        limit.charge(f"early {number}")
    clock.now += 0.2
    for number in range(5000):
        limit.charge(f"late {number}")
    limit.charge("busy")
    with pytest.raises(RateExceededError):
        limit.charge("busy")
    clock.now += 10
    for number in range(10_000):
        limit.charge(f"last {number}")
        clock.now += 0.1
    assert len(limit._windows) <= 1000
