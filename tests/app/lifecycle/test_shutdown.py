"""When the process stops listening, with a clock that the test moves."""

import pytest

from app.lifecycle.phase import Lifecycle, Phase
from app.lifecycle.shutdown import Shutdown


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Watched(Lifecycle):
    """Records its calls, and has as many requests in flight as the test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.count = 0
        self.cancel_callbacks.add(lambda: self.calls.append("work"))

    @property
    def unfinished(self) -> int:
        return self.count

    def cancel_requests(self) -> None:
        self.calls.append("rest")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lifecycle() -> Watched:
    return Watched()


@pytest.fixture
def shutdown(lifecycle: Watched, clock: Clock) -> Shutdown:
    return Shutdown(lifecycle, 30.0, clock)


def test_nothing_ends_before_a_request(shutdown: Shutdown, lifecycle: Watched) -> None:
    assert not shutdown.is_over()
    assert lifecycle.phase is Phase.LOADING


def test_an_idle_process_gives_notice_and_ends(shutdown: Shutdown, lifecycle: Watched, clock: Clock) -> None:
    assert not shutdown.request()
    assert lifecycle.phase is Phase.DRAINING
    assert not shutdown.is_over()
    clock.now += 1.1
    assert shutdown.is_over()
    assert lifecycle.calls == []


def test_requests_in_flight_are_waited_for(shutdown: Shutdown, lifecycle: Watched, clock: Clock) -> None:
    lifecycle.count = 1
    shutdown.request()
    clock.now += 29
    assert not shutdown.is_over()
    lifecycle.count = 0
    assert shutdown.is_over()
    assert not shutdown.is_urgent


def test_after_drain_seconds_requests_in_flight_are_rejected(
    shutdown: Shutdown, lifecycle: Watched, clock: Clock
) -> None:
    lifecycle.count = 1
    shutdown.request()
    clock.now += 30
    assert not shutdown.is_over()
    assert (lifecycle.calls, lifecycle.is_forced, shutdown.is_urgent) == (["work"], True, True)
    clock.now += 0.3
    assert not shutdown.is_over()
    assert not shutdown.is_over()
    assert lifecycle.calls == ["work", "rest"]
    clock.now += 1
    assert shutdown.is_over()


def test_the_second_signal_rejects_all_requests(shutdown: Shutdown, lifecycle: Watched, clock: Clock) -> None:
    lifecycle.count = 1
    shutdown.request()
    clock.now += 0.5
    assert not shutdown.request()
    assert not shutdown.is_over()
    assert lifecycle.calls == ["work"]
    lifecycle.count = 0
    assert shutdown.is_over()


def test_the_third_signal_closes_at_once(shutdown: Shutdown, clock: Clock) -> None:
    answers = []
    for _ in range(3):
        answers.append(shutdown.request())
        clock.now += 0.5
    assert answers == [False, False, True]


def test_a_forwarded_signal_counts_once(shutdown: Shutdown, lifecycle: Watched, clock: Clock) -> None:
    lifecycle.count = 1
    shutdown.request()
    clock.now += 0.05
    assert not shutdown.request()
    clock.now += 1
    assert not shutdown.is_over()
    assert not shutdown.is_urgent
