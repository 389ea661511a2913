"""The scheduler with several engines, and with many clients at once."""

import asyncio

import pytest

from app.errors import DeadlinePassedError
from model.errors import DecodingError
from tests.app.double import DoubleBackend
from tests.app.scheduling.test_scheduler import sample, scheduling, sentences, soon, until, words

pytestmark = pytest.mark.anyio


async def test_two_workers_share_one_queue() -> None:
    backend = DoubleBackend(workers=2)
    backend.gate.clear()  # whoever comes second finds its half, however late it is
    engines = [backend.engines["tiny", worker] for worker in (0, 1)]
    async with scheduling(backend) as scheduler:
        asked = sentences(backend, *[f"w{i} x y" for i in range(8)])
        task = asyncio.create_task(scheduler.submit(asked, soon()))
        await until(lambda: sum(engine.widest for engine in engines) == 8)
        backend.gate.set()
        results = await task
    assert [words(backend, result) for result in results] == [f"W{i} X Y" for i in range(8)]
    assert [engine.widest for engine in engines] == [4, 4]


async def test_checkpoints_take_turns() -> None:
    backend = DoubleBackend(("one", (("en", "fr"),)), ("two", (("fr", "en"),)))
    backend.seconds = 0.002
    async with scheduling(backend) as scheduler:
        long = asyncio.create_task(scheduler.submit(sentences(backend, "word " * 300, model="one"), soon()))
        await until(backend.entered.is_set)
        assert await scheduler.submit(sentences(backend, "a b", model="two"), soon())
        assert not long.done()
        long.cancel()


async def test_a_burst_of_clients_is_accounted_for_to_the_last_sentence() -> None:
    """200 clients at once; some leave, some are too late, some send what breaks the engine."""
    backend = DoubleBackend(workers=2)
    backend.seconds, backend.room, backend.poison = 0.001, 16, "bad"
    async with scheduling(backend, max_queued=100_000) as scheduler:
        calls = [
            asyncio.create_task(
                scheduler.submit(
                    sentences(backend, *([f"c{i} a b"] * (1 + i % 3)), "bad" if i % 50 == 7 else f"c{i}"),
                    soon(0.001 if i % 10 == 3 else 60),
                )
            )
            for i in range(200)
        ]
        await until(lambda: len(backend.admitted) > 20)
        leaving = {i for i in range(200) if i % 10 == 5 and not calls[i].done()}
        for i in leaving:
            calls[i].cancel()
        results = await asyncio.gather(*calls, return_exceptions=True)
        for i, result in enumerate(results):
            if i % 50 == 7:
                assert isinstance(result, DecodingError)
            elif i in leaving:
                assert isinstance(result, asyncio.CancelledError)
            elif i % 10 == 3:
                assert isinstance(result, DeadlinePassedError)
            else:
                assert isinstance(result, list), i
                assert [words(backend, each) for each in result] == [f"C{i} A B"] * (1 + i % 3) + [f"C{i}"]
        assert sample(scheduler, "queue_depth") == sample(scheduler, "queued_tokens") == 0
        slots = scheduler._dispatcher._slots
        await until(lambda: all(slot.load == 0 for slot in slots))
        assert scheduler._dispatcher._holders == {}
        assert scheduler._pending == {}
    assert all(engine.is_idle for engine in backend.engines.values())
    assert max(engine.widest for engine in backend.engines.values()) <= 16
