"""Submitting, waiting, giving up: the scheduler with a double that can be held."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from app.errors import DeadlinePassedError, DrainingError, QueueFullError
from app.scheduling.rate import MeasuredRate
from app.scheduling.scheduler import Scheduler
from app.telemetry import Metrics
from model.errors import DecodingError, TextTooLongError
from model.request import DecodeOptions, DecodeRequest
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def scheduling(
    backend: DoubleBackend, max_queued: int = 1000, max_batch: int = 1000
) -> AsyncIterator[Scheduler]:
    scheduler = Scheduler(backend, Metrics(), max_queued_tokens=max_queued, max_batch_tokens=max_batch)
    scheduler.start()
    try:
        yield scheduler
    finally:
        backend.gate.set()
        scheduler.stop()


def sentences(backend: DoubleBackend, *texts: str) -> list[tuple[str, DecodeRequest]]:
    options = DecodeOptions(strategy="greedy")
    return [("tiny", DecodeRequest(tuple(backend.tokenizer.encode(text)), options)) for text in texts]


def soon(seconds: float = 10) -> float:
    return time.monotonic() + seconds


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.002)


async def hold(scheduler: Scheduler, backend: DoubleBackend) -> asyncio.Task[object]:
    """Keep the engine busy with one sentence."""
    backend.gate.clear()
    backend.entered.clear()
    task: asyncio.Task[object] = asyncio.create_task(scheduler.submit(sentences(backend, "held"), soon()))
    await until(backend.entered.is_set)
    return task


def sample(scheduler: Scheduler, name: str, **labels: str) -> float:
    value = scheduler._metrics.registry.get_sample_value(f"dragoman_{name}", labels)
    assert value is not None
    return value


async def test_results_come_back_in_order(backend: DoubleBackend) -> None:
    async with scheduling(backend, max_batch=8) as scheduler:
        results = await scheduler.submit(sentences(backend, "a b c", "d", "e f"), soon())
    assert [backend.tokenizer.decode(result[0].token_ids) for result in results] == ["A B C", "D", "E F"]


async def test_nothing_to_decode_costs_nothing(backend: DoubleBackend) -> None:
    async with scheduling(backend) as scheduler:
        assert await scheduler.submit([], soon()) == []
    assert backend.batches == []


async def test_waiting_requests_share_a_batch(backend: DoubleBackend) -> None:
    async with scheduling(backend) as scheduler:
        held = await hold(scheduler, backend)
        waiting = [
            asyncio.create_task(scheduler.submit(sentences(backend, f"w{i}"), soon())) for i in range(20)
        ]
        await until(lambda: sample(scheduler, "queue_depth") == 20)
        backend.gate.set()
        await asyncio.gather(held, *waiting)
    assert [len(batch) for batch in backend.batches] == [1, 20]


async def test_a_failure_stays_with_its_own_sentence(backend: DoubleBackend) -> None:
    backend.poison = "bad"
    async with scheduling(backend) as scheduler:
        held = await hold(scheduler, backend)
        good = [asyncio.create_task(scheduler.submit(sentences(backend, f"g{i}"), soon())) for i in range(5)]
        bad = asyncio.create_task(scheduler.submit(sentences(backend, "fine", "bad"), soon()))
        await until(lambda: sample(scheduler, "queue_depth") == 7)
        backend.gate.set()
        await asyncio.gather(held, *good)
        with pytest.raises(DecodingError, match="could not be decoded"):
            await bad
        assert await scheduler.submit(sentences(backend, "later"), soon())


async def test_a_deadline_that_passes_in_the_queue_is_never_decoded(backend: DoubleBackend) -> None:
    async with scheduling(backend) as scheduler:
        held = await hold(scheduler, backend)
        began = time.monotonic()
        with pytest.raises(DeadlinePassedError):
            await scheduler.submit(sentences(backend, "late"), soon(0.05))
        assert time.monotonic() - began < 2
        assert sample(scheduler, "queue_depth") == 0
        assert sample(scheduler, "cancelled_total", stage="queued") == 1
        backend.gate.set()
        await held
    assert len(backend.batches) == 1


async def test_a_deadline_that_passes_while_decoding(backend: DoubleBackend) -> None:
    async with scheduling(backend) as scheduler:
        backend.gate.clear()
        with pytest.raises(DeadlinePassedError):
            await scheduler.submit(sentences(backend, "slow"), soon(0.05))
        assert sample(scheduler, "cancelled_total", stage="decoding") == 1
        backend.gate.set()
        assert await scheduler.submit(sentences(backend, "next"), soon())


async def test_cancelling_the_caller_takes_its_work_back(backend: DoubleBackend) -> None:
    async with scheduling(backend) as scheduler:
        held = await hold(scheduler, backend)
        gone = asyncio.create_task(scheduler.submit(sentences(backend, "x", "y"), soon()))
        await until(lambda: sample(scheduler, "queue_depth") == 2)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert sample(scheduler, "queue_depth") == 0
        assert sample(scheduler, "queued_tokens") == 0
        backend.gate.set()
        await held
    assert len(backend.batches) == 1


async def test_a_full_queue_refuses_with_an_honest_wait(backend: DoubleBackend) -> None:
    async with scheduling(backend, max_queued=10) as scheduler:
        held = await hold(scheduler, backend)
        waiting = asyncio.create_task(scheduler.submit(sentences(backend, "a b c d e f g h i"), soon()))
        await until(lambda: sample(scheduler, "queued_tokens") == 10)
        with pytest.raises(QueueFullError) as refusal:
            await scheduler.submit(sentences(backend, "more"), soon())
        assert refusal.value.retry_after >= 1
        with pytest.raises(QueueFullError):
            scheduler.require_room()
        backend.gate.set()
        await asyncio.gather(held, waiting)
        scheduler.require_room()


async def test_what_can_never_fit_is_told_the_limit(backend: DoubleBackend) -> None:
    async with scheduling(backend, max_queued=3) as scheduler:
        with pytest.raises(TextTooLongError, match="MAX_QUEUED_TOKENS"):
            await scheduler.submit(sentences(backend, "a b c d"), soon())


async def test_draining_answers_what_was_admitted_and_takes_no_more(backend: DoubleBackend) -> None:
    async with scheduling(backend) as scheduler:
        held = await hold(scheduler, backend)
        waiting = asyncio.create_task(scheduler.submit(sentences(backend, "waiting"), soon()))
        await until(lambda: sample(scheduler, "queue_depth") == 1)
        draining = asyncio.create_task(scheduler.drain(5))
        await asyncio.sleep(0)
        with pytest.raises(DrainingError):
            await scheduler.submit(sentences(backend, "new"), soon())
        assert not draining.done()
        backend.gate.set()
        await draining
        assert await held
        assert await waiting


def test_a_rate_before_and_after_measuring() -> None:
    rate = MeasuredRate()
    assert rate.seconds_for(10**9) == 1
    rate.record(100, 0.5)
    assert rate.seconds_for(1) == 1
    assert rate.seconds_for(1000) == 5
    assert rate.seconds_for(10**9) == 60
    for _ in range(50):
        rate.record(100, 1.0)
    assert rate.seconds_for(1000) == 10
