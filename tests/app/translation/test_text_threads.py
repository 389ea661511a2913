"""Threads for long texts: a cancelled caller loses no thread, and clients share the threads fairly."""

import asyncio
import threading
from contextvars import ContextVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.translation.text_threads import TextThreads
from tests.app.conftest import until

pytestmark = pytest.mark.anyio
LONG = 3_000


CONTEXT: ContextVar[str] = ContextVar("test")


async def test_long_texts_have_a_thread_and_short_ones_none() -> None:
    threads = TextThreads(2)
    assert await threads.run(threading.get_ident, client="a", size=5) == threading.get_ident()
    CONTEXT.set("request 1")
    assert await threads.run(CONTEXT.get, client="a", size=LONG) == "request 1"
    assert await threads.run(threading.get_ident, client="a", size=LONG) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0, client="a", size=LONG)
    await asyncio.sleep(0.01)
    assert threads._permits.free == 2


async def test_a_modest_client_does_not_wait_for_all_work_of_another() -> None:
    threads = TextThreads(1)
    gate, order = threading.Event(), []
    held = asyncio.create_task(threads.run(gate.wait, client="greedy", size=LONG * 10))
    pile = [
        asyncio.create_task(threads.run(lambda: order.append("greedy"), client="greedy", size=LONG * 10))
        for _ in range(20)
    ]
    await asyncio.sleep(0)
    modest = asyncio.create_task(threads.run(lambda: order.append("modest"), client="modest", size=LONG * 10))
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(held, modest, *pile)
    assert order.index("modest") <= 1


async def test_threads_do_not_delay_the_end_of_the_process() -> None:
    assert await TextThreads(1).run(lambda: threading.current_thread().daemon, client="a", size=LONG)


async def test_a_thread_that_cannot_start_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = TextThreads(1)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError):
            await threads.run(list, client="a", size=LONG)
    assert await threads.run(list, client="a", size=LONG) == []


CALLS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.integers(0, 3), st.booleans()), max_size=25
)


@given(st.integers(1, 3), CALLS)
def test_no_thread_is_lost_whoever_is_cancelled(count: int, calls: list[tuple[str, int, int, bool]]) -> None:
    async def play() -> None:
        threads, gate = TextThreads(count), threading.Event()
        tasks = []
        for client, cost, ticks, is_cancelled in calls:
            tasks.append(asyncio.create_task(threads.run(gate.wait, client=client, size=LONG * cost)))
            for _ in range(ticks):
                await asyncio.sleep(0)
            if is_cancelled:
                tasks[len(tasks) // 2].cancel()
        gate.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: threads._permits.free >= count)
        assert threads._permits.free == count
        assert len(threads._permits._waiting) == 0

    asyncio.run(play())
