"""Work in a thread beside the event loop: its result and failure, a caller that stops waiting, garbage."""

import asyncio
import threading
import weakref

import pytest

from app.background import in_background, reclaim_memory

pytestmark = pytest.mark.anyio


async def test_the_result_comes_back_from_another_thread_and_so_does_what_it_raises() -> None:
    assert await in_background(threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await in_background(lambda: 1 // 0)


async def test_the_work_goes_on_when_its_caller_stops_waiting() -> None:
    go, done = threading.Event(), threading.Event()

    def work() -> None:
        go.wait(60)
        done.set()

    task = asyncio.ensure_future(in_background(work))
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
        task = asyncio.ensure_future(in_background(lambda: go.wait(60)))
        await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(asyncio.wait_for(leave(), 10))
    worker = next(thread for thread in threading.enumerate() if thread.name == "background")
    assert worker.daemon
    go.set()
    worker.join(10)
    assert not worker.is_alive()


async def test_without_a_thread_the_event_loop_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    assert await in_background(threading.get_ident) == threading.get_ident()


def test_reference_cycles_are_freed() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    cycle = Cycle()
    seen = weakref.ref(cycle)
    del cycle
    reclaim_memory()
    assert seen() is None
