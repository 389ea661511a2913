"""Threads for long texts: each is given back, whatever becomes of who asked for it, and nobody hogs them."""

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.translation.text_threads import TextThreads

pytestmark = pytest.mark.anyio


async def test_work_is_done_elsewhere_and_its_failures_come_back() -> None:
    threads = TextThreads(2)
    assert await threads.run(threading.get_ident, client="a", cost=1) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0, client="a", cost=1)
    await asyncio.sleep(0.01)
    assert threads._free == 2


async def test_a_modest_client_does_not_wait_behind_the_pile_of_another() -> None:
    threads = TextThreads(1)
    gate, order = threading.Event(), []
    held = asyncio.create_task(threads.run(gate.wait, client="greedy", cost=10))
    pile = [
        asyncio.create_task(threads.run(lambda: order.append("greedy"), client="greedy", cost=10))
        for _ in range(20)
    ]
    await asyncio.sleep(0)
    modest = asyncio.create_task(threads.run(lambda: order.append("modest"), client="modest", cost=10))
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(held, modest, *pile)
    assert order.index("modest") <= 1


async def test_the_end_of_the_process_waits_for_no_thread() -> None:
    """Of a megabyte of markup, reading takes seconds."""
    assert await TextThreads(1).run(lambda: threading.current_thread().daemon, client="a", cost=1)


async def test_where_there_are_no_threads_the_next_one_gets_its_chance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = TextThreads(1)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError):
            await threads.run(list, client="a", cost=1)
    assert await threads.run(list, client="a", cost=1) == []


VISITS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.integers(0, 3), st.booleans()), max_size=25
)


@given(st.integers(1, 3), VISITS)
def test_every_thread_is_given_back_whoever_is_cancelled(
    count: int, visits: list[tuple[str, int, int, bool]]
) -> None:
    async def play() -> None:
        threads, gate = TextThreads(count), threading.Event()
        tasks = []
        for client, cost, ticks, is_cancelled in visits:
            tasks.append(asyncio.create_task(threads.run(gate.wait, client=client, cost=cost)))
            for _ in range(ticks):
                await asyncio.sleep(0)
            if is_cancelled:
                tasks[len(tasks) // 2].cancel()
        gate.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with asyncio.timeout(60):
            while threads._free < count:
                await asyncio.sleep(0.001)
        assert threads._free == count
        assert len(threads._waiting) == 0

    asyncio.run(play())
