"""Shares of a bounded resource, and the rate at which it is freed."""

import sys
from collections.abc import Iterator
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.admission.quota import ALPHA, MeasuredRate, Quota

SIZE = 1000


def fill(size: int, clients: int) -> list[int]:
    """Clients take one at a time, in turn, for as long as any of them may; returns what each has."""
    quota = Quota(size)
    names = list(map(str, range(clients)))
    while any(quota.fits(1, name) for name in names):
        for name in names:
            if quota.fits(1, name):
                quota.take(1, name)
    return [quota.of_client[name] for name in names]


def test_greedy_clients_get_equal_shares_and_leave_some() -> None:
    for clients in (2, 3, 7):
        has = fill(SIZE, clients)
        assert max(has) - min(has) <= ALPHA
        assert SIZE / (1 + clients * ALPHA) - 2 * ALPHA <= SIZE - sum(has) <= SIZE / (1 + clients * ALPHA) + 2


def test_a_client_that_has_nothing_gets_what_is_free() -> None:
    quota = Quota(SIZE)
    assert quota.fits(SIZE, "new")
    quota.take(SIZE - 1, "other")
    assert quota.fits(1, "new")
    assert not quota.fits(2, "new")
    quota.take(1, "other")
    assert not quota.fits(1, "new")


@given(st.integers(1, 2000), st.integers(0, SIZE), st.integers(0, SIZE))
def test_what_is_too_much_fits_once_the_excess_is_gone(need: int, mine: int, others: int) -> None:
    quota = Quota(SIZE)
    quota.take(others, "other")
    quota.take(min(mine, SIZE - others), "me")
    missing = quota.excess(need, "me")
    assert (missing == 0) == quota.fits(need, "me")
    if 0 < missing < quota.of_client["me"]:
        quota.give_back(missing - 1, "me")
        assert not quota.fits(need, "me")
        quota.give_back(1, "me")
        assert quota.fits(need, "me")


def test_a_rate_before_and_after_measuring() -> None:
    rate = MeasuredRate(workers=1)
    assert rate.seconds_for(10**9) == 1
    rate.record(0, 0.1)
    assert rate.seconds_for(10**9) == 1
    rate.record(100, 0.4)
    assert rate.seconds_for(1) == 1
    assert rate.seconds_for(1000) == 5
    assert rate.seconds_for(10**9) == 60


def test_turns_without_an_end_count_too() -> None:
    rate = MeasuredRate(workers=1)
    for turn in range(1000):
        rate.record(100 if turn % 10 == 9 else 0, 0.1)
    assert rate.tokens_per_second == pytest.approx(100, rel=0.2)


def test_workers_add_up_and_the_present_outweighs_the_past() -> None:
    rate = MeasuredRate(workers=3)
    for _ in range(100):
        rate.record(1000, 0.1)
    assert rate.tokens_per_second == pytest.approx(30_000)
    for _ in range(100):
        rate.record(1, 0.1)
    assert rate.tokens_per_second == pytest.approx(3 * 10, rel=0.5 ** (10 / 2) * 1000)
    assert rate.tokens_per_second is not None
    assert rate.tokens_per_second < 3000


def test_nothing_is_predicted_from_a_batch_that_has_only_begun() -> None:
    rate = MeasuredRate(workers=2)
    assert rate.predict(10**9) == 0
    rate.record(10, 0.02)
    assert rate.predict(10**9) == 0
    for _ in range(50):
        rate.record(10, 0.02)
    assert rate.predict(10_000) == pytest.approx(10.0)


@pytest.fixture
def restless_threads() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("restless_threads")
def test_it_may_be_asked_while_the_first_work_is_recorded() -> None:
    for _ in range(200):
        rate = MeasuredRate(workers=1)
        worker = Thread(target=rate.record, args=(100, 1.0))
        worker.start()
        while worker.is_alive():
            assert rate.predict(100) in (0, 1)
        worker.join()
