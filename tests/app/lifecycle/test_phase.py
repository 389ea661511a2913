"""Who is in flight, and who came before what."""

import asyncio

import pytest

from app.errors import DrainingError, NotReadyError
from app.lifecycle.phase import Lifecycle

pytestmark = pytest.mark.anyio


async def visit(lifecycle: Lifecycle, end: asyncio.Event) -> None:
    lifecycle.enter()
    try:
        await end.wait()
    finally:
        lifecycle.leave()


async def test_a_cohort_is_gone_when_the_last_of_it_has_left_and_not_when_later_ones_do() -> None:
    lifecycle, end, later = Lifecycle(), asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(visit(lifecycle, end))
    await asyncio.sleep(0)
    gone = asyncio.create_task(lifecycle.part().gone())
    second = asyncio.create_task(visit(lifecycle, later))
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


async def test_nobody_is_waited_for_where_nobody_is() -> None:
    async with asyncio.timeout(60):
        await Lifecycle().part().gone()


async def test_what_comes_while_draining_is_not_to_be_finished() -> None:
    lifecycle, end = Lifecycle(), asyncio.Event()
    before = asyncio.create_task(visit(lifecycle, end))
    await asyncio.sleep(0)
    assert lifecycle.unfinished == 1
    lifecycle.drain()
    after = asyncio.create_task(visit(lifecycle, end))
    await asyncio.sleep(0)
    assert (lifecycle.in_flight, lifecycle.unfinished) == (2, 1)
    end.set()
    await asyncio.gather(before, after)
    assert lifecycle.unfinished == 0


async def test_a_signal_may_come_while_a_request_does(monkeypatch: pytest.MonkeyPatch) -> None:
    lifecycle, end = Lifecycle(), asyncio.Event()
    task = asyncio.create_task(visit(lifecycle, end))
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


async def test_the_rest_is_ended_wherever_it_is() -> None:
    lifecycle = Lifecycle()
    task = asyncio.create_task(visit(lifecycle, asyncio.Event()))
    await asyncio.sleep(0)
    lifecycle.cancel_requests()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lifecycle.in_flight == 0
