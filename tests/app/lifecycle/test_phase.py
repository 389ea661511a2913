"""Phases of the process, requests in flight, and their epochs."""

import asyncio

import pytest

from app.errors import DrainingError, NotReadyError
from app.lifecycle.phase import Lifecycle

pytestmark = pytest.mark.anyio


async def answer(lifecycle: Lifecycle, end: asyncio.Event) -> None:
    lifecycle.enter()
    try:
        await end.wait()
    finally:
        lifecycle.leave()


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


async def test_an_empty_epoch_ends_at_once() -> None:
    async with asyncio.timeout(60):
        await Lifecycle().start_epoch().wait()


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


async def test_only_a_ready_process_serves_and_a_draining_one_never_again() -> None:
    lifecycle = Lifecycle()
    with pytest.raises(NotReadyError):
        lifecycle.require_ready()
    lifecycle.become_ready()
    lifecycle.require_ready()
    lifecycle.drain()
    lifecycle.become_ready()
    with pytest.raises(DrainingError):
        lifecycle.require_ready()


async def test_all_requests_can_be_cancelled() -> None:
    lifecycle = Lifecycle()
    task = asyncio.create_task(answer(lifecycle, asyncio.Event()))
    await asyncio.sleep(0)
    lifecycle.cancel_requests()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lifecycle.in_flight == 0
