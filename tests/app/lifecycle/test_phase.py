"""Phases of the process, requests in flight, their epochs, and a shutdown by a clock that the test moves."""

import asyncio

import pytest

from app.lifecycle.phase import Lifecycle, Phase, Shutdown


async def answer(lifecycle: Lifecycle, end: asyncio.Event) -> None:
    lifecycle.enter()
    try:
        await end.wait()
    finally:
        lifecycle.leave()


@pytest.mark.anyio
async def test_an_epoch_ends_with_its_last_request_and_not_with_later_ones() -> None:
    lifecycle, end, later = Lifecycle(), asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(answer(lifecycle, end))
    await asyncio.sleep(0)
    gone = asyncio.create_task(lifecycle.start_epoch().wait())
    second = asyncio.create_task(answer(lifecycle, later))
    await asyncio.sleep(0)
    assert (lifecycle.in_flight, gone.done()) == (2, False)
    end.set()
    await first
    async with asyncio.timeout(60):
        await gone
    assert lifecycle.in_flight == 1
    later.set()
    await second
    assert lifecycle.in_flight == 0


@pytest.mark.anyio
async def test_an_empty_epoch_ends_at_once() -> None:
    async with asyncio.timeout(60):
        await Lifecycle().start_epoch().wait()


@pytest.mark.anyio
async def test_requests_that_arrive_while_draining_do_not_delay_the_end() -> None:
    lifecycle, end = Lifecycle(), asyncio.Event()
    before = asyncio.create_task(answer(lifecycle, end))
    await asyncio.sleep(0)
    assert lifecycle.unfinished == 1
    lifecycle.drain()
    after = asyncio.create_task(answer(lifecycle, end))
    await asyncio.sleep(0)
    assert (lifecycle.in_flight, lifecycle.unfinished) == (2, 1)
    end.set()
    await asyncio.gather(before, after)
    assert lifecycle.unfinished == 0


@pytest.mark.anyio
async def test_a_signal_may_interrupt_the_arrival_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    lifecycle, end = Lifecycle(), asyncio.Event()
    task = asyncio.create_task(answer(lifecycle, end))
    current_task = asyncio.current_task

    def interrupted() -> asyncio.Task[object] | None:
        monkeypatch.undo()
        lifecycle.drain()
        return current_task()

    monkeypatch.setattr(asyncio, "current_task", interrupted)
    await asyncio.sleep(0)
    assert (lifecycle.in_flight, lifecycle.unfinished) == (1, 1)
    end.set()
    await task
    assert (lifecycle.in_flight, lifecycle.unfinished) == (0, 0)


@pytest.mark.anyio
async def test_all_requests_can_be_cancelled() -> None:
    lifecycle = Lifecycle()
    task = asyncio.create_task(answer(lifecycle, asyncio.Event()))
    await asyncio.sleep(0)
    lifecycle.cancel_requests()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lifecycle.in_flight == 0


# Shutdown


class Watched(Lifecycle):
    """Records its calls; the test sets the time, and how many requests are in flight."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.count = 0
        self.now = 1000.0
        self.cancel_callbacks.append(lambda: self.calls.append("work"))

    @property
    def unfinished(self) -> int:
        return self.count

    def cancel_requests(self) -> None:
        self.calls.append("rest")


@pytest.fixture
def lifecycle() -> Watched:
    return Watched()


@pytest.fixture
def shutdown(lifecycle: Watched) -> Shutdown:
    return Shutdown(lifecycle, 30.0, lambda: lifecycle.now)


def test_an_idle_process_gives_notice_and_ends(shutdown: Shutdown, lifecycle: Watched) -> None:
    shutdown.request()
    assert lifecycle.phase is Phase.DRAINING
    assert not shutdown.is_over()
    lifecycle.now += 1.1
    assert shutdown.is_over()
    assert lifecycle.calls == []


def test_requests_in_flight_are_waited_for(shutdown: Shutdown, lifecycle: Watched) -> None:
    lifecycle.count = 1
    shutdown.request()
    lifecycle.now += 29
    assert not shutdown.is_over()
    lifecycle.count = 0
    assert shutdown.is_over()
    assert not shutdown.is_urgent


def test_after_drain_seconds_requests_in_flight_are_rejected(shutdown: Shutdown, lifecycle: Watched) -> None:
    lifecycle.count = 1
    shutdown.request()
    lifecycle.now += 30
    assert not shutdown.is_over()
    assert (lifecycle.calls, lifecycle.is_forced, shutdown.is_urgent) == (["work"], True, True)
    lifecycle.now += 0.3
    assert not shutdown.is_over()
    assert not shutdown.is_over()
    assert lifecycle.calls == ["work", "rest"]
    lifecycle.now += 1
    assert shutdown.is_over()


def test_a_forwarded_signal_counts_once(shutdown: Shutdown, lifecycle: Watched) -> None:
    lifecycle.count = 1
    shutdown.request()
    lifecycle.now += 0.05
    shutdown.request()
    lifecycle.now += 1
    assert not shutdown.is_over()
    assert not shutdown.is_urgent
