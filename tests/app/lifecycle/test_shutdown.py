"""When the process stops listening, by a clock that the test moves."""

import pytest

from app.lifecycle.phase import Lifecycle, Phase
from app.lifecycle.shutdown import Shutdown


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Watched(Lifecycle):
    """Writes down what it is told, and has as much in flight as the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        self.count = 0
        self.cancel_callbacks.add(lambda: self.told.append("work"))

    @property
    def unfinished(self) -> int:
        return self.count

    def cancel_requests(self) -> None:
        self.told.append("rest")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lifecycle() -> Watched:
    return Watched()


@pytest.fixture
def shutdown(lifecycle: Watched, clock: Clock) -> Shutdown:
    return Shutdown(lifecycle, 30.0, clock)


def test_nothing_is_over_before_somebody_asks(shutdown: Shutdown, lifecycle: Watched) -> None:
    assert not shutdown.is_over()
    assert lifecycle.phase is Phase.LOADING


def test_an_idle_process_gives_notice_and_ends(shutdown: Shutdown, lifecycle: Watched, clock: Clock) -> None:
    assert not shutdown.ask()
    assert lifecycle.phase is Phase.DRAINING
    assert not shutdown.is_over()
    clock.now += 1.1
    assert shutdown.is_over()
    assert lifecycle.told == []


def test_what_is_in_flight_is_waited_for(shutdown: Shutdown, lifecycle: Watched, clock: Clock) -> None:
    lifecycle.count = 1
    shutdown.ask()
    clock.now += 29
    assert not shutdown.is_over()
    lifecycle.count = 0
    assert shutdown.is_over()
    assert not shutdown.is_urgent


def test_after_the_time_for_it_what_is_in_flight_is_refused(
    shutdown: Shutdown, lifecycle: Watched, clock: Clock
) -> None:
    lifecycle.count = 1
    shutdown.ask()
    clock.now += 30
    assert not shutdown.is_over()
    assert (lifecycle.told, lifecycle.is_forced, shutdown.is_urgent) == (["work"], True, True)
    clock.now += 0.3
    assert not shutdown.is_over()
    assert not shutdown.is_over()
    assert lifecycle.told == ["work", "rest"]
    clock.now += 1
    assert shutdown.is_over()


def test_the_second_time_everybody_is_refused_at_once(
    shutdown: Shutdown, lifecycle: Watched, clock: Clock
) -> None:
    lifecycle.count = 1
    shutdown.ask()
    clock.now += 0.5
    assert not shutdown.ask()
    assert not shutdown.is_over()
    assert lifecycle.told == ["work"]
    lifecycle.count = 0
    assert shutdown.is_over()


def test_the_third_time_nobody_waits_even_for_that(shutdown: Shutdown, clock: Clock) -> None:
    answers = []
    for _ in range(3):
        answers.append(shutdown.ask())
        clock.now += 0.5
    assert answers == [False, False, True]


def test_one_signal_that_comes_twice_is_one(shutdown: Shutdown, lifecycle: Watched, clock: Clock) -> None:
    """`make` passes on what its whole group has been sent."""
    lifecycle.count = 1
    shutdown.ask()
    clock.now += 0.05
    assert not shutdown.ask()
    clock.now += 1
    assert not shutdown.is_over()
    assert not shutdown.is_urgent
