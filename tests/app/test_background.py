"""Work in a thread beside the event loop: its result, its failure, and a caller that stops waiting."""

import asyncio
import threading

import pytest

from app.background import in_background

pytestmark = pytest.mark.anyio


async def test_the_result_comes_back_from_another_thread() -> None:
    assert await in_background(threading.get_ident) != threading.get_ident()


async def test_so_does_what_it_raises() -> None:
    with pytest.raises(ZeroDivisionError):
        await in_background(lambda: 1 // 0)


async def test_the_work_goes_on_when_its_caller_stops_waiting() -> None:
    go, done = threading.Event(), threading.Event()

    def work() -> None:
        go.wait(60)
        done.set()

    task = asyncio.create_task(in_background(work))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    assert await in_background(lambda: done.wait(60))
    await asyncio.sleep(0.01)


def test_the_end_of_the_loop_does_not_wait_for_it() -> None:
    go = threading.Event()

    async def leave() -> None:
        task = asyncio.create_task(in_background(lambda: go.wait(60)))
        await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(asyncio.wait_for(leave(), 10))
    worker = next(thread for thread in threading.enumerate() if thread.name == "background")
    assert worker.daemon
    go.set()
    worker.join(10)
    assert not worker.is_alive()
