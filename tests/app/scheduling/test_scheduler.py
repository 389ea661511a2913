"""Submitting, waiting, giving up: the scheduler with a double that can be held."""

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from app.errors import DeadlinePassedError, DrainingError, QueueFullError
from app.scheduling.scheduler import Scheduler
from app.telemetry.metrics import Metrics
from model.errors import DecodingError, TextTooLongError
from model.request import DecodeOptions, DecodeRequest, Hypothesis
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio
GREEDY = DecodeOptions(strategy="greedy")


@asynccontextmanager
async def scheduling(
    backend: DoubleBackend, max_queued: int = 10_000, fair_rows: int = 8
) -> AsyncIterator[Scheduler]:
    scheduler = Scheduler(backend, Metrics(), max_queued_tokens=max_queued, fair_rows=fair_rows)
    scheduler.publish_metrics()
    scheduler.start()
    try:
        yield scheduler
    finally:
        backend.gate.set()
        assert scheduler.stop(5)


def sentences(
    backend: DoubleBackend, *texts: str, model: str = "tiny", options: DecodeOptions = GREEDY
) -> list[tuple[str, DecodeRequest]]:
    return [(model, DecodeRequest(tuple(backend.tokenizer.encode(text)), options)) for text in texts]


def words(backend: DoubleBackend, result: Sequence[Hypothesis]) -> str:
    return backend.tokenizer.decode(result[0].token_ids)


def soon(seconds: float = 10) -> float:
    return time.monotonic() + seconds


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.002)


async def hold(scheduler: Scheduler, backend: DoubleBackend) -> asyncio.Task[object]:
    """Keep the engine busy with the first step of one sentence."""
    backend.gate.clear()
    backend.entered.clear()
    task: asyncio.Task[object] = asyncio.create_task(scheduler.submit(sentences(backend, "held up"), soon()))
    await until(backend.entered.is_set)
    return task


def sample(scheduler: Scheduler, name: str, **labels: str) -> float:
    value = scheduler._metrics.registry.get_sample_value(f"dragoman_{name}", labels)
    assert value is not None
    return value


async def test_results_come_back_in_order(backend: DoubleBackend) -> None:
    async with scheduling(backend) as scheduler:
        results = await scheduler.submit(sentences(backend, "a b c", "d", "e f"), soon())
    assert [words(backend, result) for result in results] == ["A B C", "D", "E F"]


async def test_nothing_to_decode_costs_nothing(backend: DoubleBackend) -> None:
    async with scheduling(backend) as scheduler:
        assert await scheduler.submit([], soon()) == []
    assert backend.admitted == []


async def test_a_sentence_joins_those_that_run_and_waits_for_none_of_them(backend: DoubleBackend) -> None:
    backend.seconds = 0.005
    async with scheduling(backend) as scheduler:
        long = asyncio.create_task(scheduler.submit(sentences(backend, "word " * 2000), soon(60)))
        await until(backend.entered.is_set)
        for text in ("one", "two", "three"):
            await scheduler.submit(sentences(backend, text), soon())
        assert not long.done()
        long.cancel()
    sizes = backend.engines["tiny", 0].sizes
    assert (sizes[0], max(sizes)) == (1, 2)


async def test_what_waits_joins_in_one_step(backend: DoubleBackend) -> None:
    async with scheduling(backend) as scheduler:
        held = await hold(scheduler, backend)
        waiting = [
            asyncio.create_task(scheduler.submit(sentences(backend, f"w{i}"), soon())) for i in range(20)
        ]
        await until(lambda: sample(scheduler, "queue_depth") == 20)
        backend.gate.set()
        await asyncio.gather(held, *waiting)
    assert backend.engines["tiny", 0].sizes[:2] == [1, 21]


async def test_an_engine_never_gets_more_than_fits_and_the_order_is_kept(backend: DoubleBackend) -> None:
    backend.room = 3
    async with scheduling(backend) as scheduler:
        texts = [f"w{i} " * (1 + i % 4) for i in range(40)]
        results = await scheduler.submit(sentences(backend, *texts), soon())
    assert [words(backend, result) for result in results] == [text.strip().upper() for text in texts]
    assert [backend.tokenizer.decode(each.source_ids[:1]) for each in backend.admitted] == [
        f"W{i}" for i in range(40)
    ]
    assert backend.engines["tiny", 0].widest == 3


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
        with pytest.raises(DeadlinePassedError):
            await scheduler.submit(sentences(backend, "late"), soon(0.05))
        assert not held.done()
        assert sample(scheduler, "queue_depth") == 0
        assert sample(scheduler, "cancelled_total", stage="queued") == 1
        backend.gate.set()
        await held
    assert len(backend.admitted) == 1


async def test_a_worker_that_sees_first_that_a_sentence_is_overdue_changes_no_account(
    backend: DoubleBackend,
) -> None:
    async with scheduling(backend) as scheduler:
        held = await hold(scheduler, backend)
        late = asyncio.create_task(scheduler.submit(sentences(backend, "late"), soon(1.5)))
        await until(lambda: sample(scheduler, "queue_depth") == 1)
        # Nobody is told of the deadline before the worker has gone on.
        time.sleep(1.7)
        backend.gate.set()
        time.sleep(0.2)
        with pytest.raises(DeadlinePassedError):
            await late
        await held
        assert sample(scheduler, "cancelled_total", stage="queued") == 1
        assert sample(scheduler, "cancelled_total", stage="decoding") == 0
    assert len(backend.admitted) == 1


async def test_a_deadline_that_passes_while_decoding_ends_it_within_a_step(backend: DoubleBackend) -> None:
    async with scheduling(backend) as scheduler:
        backend.gate.clear()
        with pytest.raises(DeadlinePassedError):
            await scheduler.submit(sentences(backend, "slow one " * 20), soon(3))
        assert sample(scheduler, "cancelled_total", stage="decoding") == 1
        backend.gate.set()
        await until(lambda: len(backend.cancelled) == 1)
        assert await scheduler.submit(sentences(backend, "next"), soon())
    assert backend.engines["tiny", 0].sizes == [1, 1, 1]


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
    assert len(backend.admitted) == 1


async def test_cancelling_leaves_the_neighbours_alone(backend: DoubleBackend) -> None:
    options = dataclasses.replace(GREEDY, no_repeat_ngram_size=3)
    async with scheduling(backend) as scheduler:
        held = await hold(scheduler, backend)
        texts = [f"w{i} " * 30 for i in range(10)]
        calls = [
            asyncio.create_task(scheduler.submit(sentences(backend, text, options=options), soon()))
            for text in texts
        ]
        await until(lambda: sample(scheduler, "queue_depth") == 10)
        backend.is_slow_to_repeat = True  # all of them join in one step, and stand still in it
        backend.gate.set()
        await until(lambda: len(backend.admitted) == 11)
        for call in calls[::2]:
            call.cancel()
        await asyncio.wait(calls[::2])
        backend.gate.set()
        await held
        results = await asyncio.gather(*calls, return_exceptions=True)
        await until(lambda: len(backend.cancelled) == 5)
        assert sample(scheduler, "cancelled_total", stage="decoding") == 5
    assert all(isinstance(result, asyncio.CancelledError) for result in results[::2])
    for result, text in zip(results[1::2], texts[1::2], strict=True):
        assert isinstance(result, list)
        assert words(backend, result[0]) == text.strip().upper()


async def test_a_full_queue_refuses_with_an_honest_wait(backend: DoubleBackend) -> None:
    backend.room = 1
    async with scheduling(backend, max_queued=10) as scheduler:
        held = await hold(scheduler, backend)
        waiting = asyncio.create_task(scheduler.submit(sentences(backend, "a b c d e f g h i"), soon()))
        await until(lambda: sample(scheduler, "queued_tokens") == 10)
        with pytest.raises(QueueFullError) as refusal:
            await scheduler.submit(sentences(backend, "more"), soon())
        assert refusal.value.retry_after >= 1
        with pytest.raises(QueueFullError):
            scheduler.require_room("", soon())
        backend.gate.set()
        await asyncio.gather(held, waiting)
        scheduler.require_room("", soon())


async def test_a_deadline_far_shorter_than_the_wait_is_given_up_at_once(backend: DoubleBackend) -> None:
    backend.room, backend.seconds = 1, 0.02
    async with scheduling(backend) as scheduler:
        texts = [f"w{i} a b c" for i in range(100)]
        waiting = asyncio.create_task(scheduler.submit(sentences(backend, *texts), soon(60), client="a"))
        await until(lambda: scheduler._rate.predict(1) > 0)
        with pytest.raises(DeadlinePassedError):
            scheduler.require_room("a", soon(0.1))
        scheduler.require_room("a", soon(60))
        scheduler.require_room("another client, which waits for none of this", soon(0.1))
        waiting.cancel()
    assert len(backend.admitted) < 100


async def test_beside_a_modest_client_a_greedy_one_does_not_fill_the_batches(backend: DoubleBackend) -> None:
    backend.seconds = 0.002
    async with scheduling(backend, fair_rows=2) as scheduler:
        modest = scheduler.submit(sentences(backend, "one"), soon(), client="modest")
        greedy = [
            asyncio.create_task(scheduler.submit(sentences(backend, f"w{i} a b"), soon(), client="greedy"))
            for i in range(40)
        ]
        await modest
        for _ in range(5):
            await scheduler.submit(sentences(backend, "two three"), soon(), client="modest")
        shared = len(backend.engines["tiny", 0].sizes)
        await asyncio.gather(*greedy)
    sizes = backend.engines["tiny", 0].sizes
    assert max(sizes[:shared]) <= 3, "two of the greedy client's and one of the other's"


async def test_a_lone_client_fills_the_batches(backend: DoubleBackend) -> None:
    async with scheduling(backend, fair_rows=1) as scheduler:
        texts = [f"w{i} a b" for i in range(40)]
        await scheduler.submit(sentences(backend, *texts), soon(), client="alone")
    assert backend.engines["tiny", 0].widest == 40


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


class Watcher:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, tuple[int, ...], bool]] = []

    def grew(self, index: int, token_ids: Sequence[int]) -> None:
        self.told.append((index, tuple(token_ids), False))

    def finished(self, index: int, hypotheses: Sequence[Hypothesis]) -> None:
        self.told.append((index, hypotheses[0].token_ids, True))


@pytest.mark.parametrize("poison", [None, "bad"])
async def test_a_follower_sees_each_sentence_grow_and_never_shrink(
    backend: DoubleBackend, poison: str | None
) -> None:
    """Also where a neighbour's failure makes it start again."""
    backend.seconds = 0.03
    watcher = Watcher()
    async with scheduling(backend) as scheduler:
        followed = asyncio.create_task(
            scheduler.submit(sentences(backend, "a b c d e f", "g h i"), soon(), watcher)
        )
        await asyncio.sleep(0.1)
        backend.poison = poison
        if poison:
            with pytest.raises(DecodingError):
                await scheduler.submit(sentences(backend, poison), soon())
        results = await followed
    for index, result in enumerate(results):
        seen = [(ids, final) for i, ids, final in watcher.told if i == index]
        assert len(seen) >= 3
        assert [final for _, final in seen] == [False] * (len(seen) - 1) + [True]
        for (shorter, _), (longer, _) in pairwise(seen):
            assert longer[: len(shorter)] == shorter
        assert seen[-1][0] == result[0].token_ids


async def test_metrics_tell_every_wait_and_every_step(backend: DoubleBackend) -> None:
    async with scheduling(backend) as scheduler:
        await scheduler.submit(sentences(backend, "a b c", "d"), soon())
        assert sample(scheduler, "queue_wait_seconds_count") == 2
        assert sample(scheduler, "time_to_first_token_seconds_count") == 2
        assert sample(scheduler, "decode_step_seconds_count") == 4
        assert sample(scheduler, "batch_sentences_sum") == 2 + 2 + 1 + 1
        assert sample(scheduler, "batch_sentences_bucket", le="1.0") == 2
        assert sample(scheduler, "batch_sentences_bucket", le="2.0") == 4
        assert sample(scheduler, "batch_rows_bucket", le="+Inf") == 4
