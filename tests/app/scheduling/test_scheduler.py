"""The scheduler: submitting, waiting, cancelling, with engines that can be held."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from app.backend import Model
from app.errors import DeadlinePassedError, QueueFullError
from app.scheduling.scheduler import PendingRequest, Scheduler
from app.telemetry.metrics import Metrics
from model.decode_request import DecodeOptions, DecodeRequest, Hypothesis
from model.errors import DecodingError, TextTooLongError
from tests.app.conftest import until
from tests.app.double import DoubleBackend
from tests.app.scheduling.test_backlog import job

pytestmark = pytest.mark.anyio
GREEDY = DecodeOptions(strategy="greedy")


@asynccontextmanager
async def scheduling(
    backend: DoubleBackend, max_queued: int = 10_000, fair_rows: int = 8
) -> AsyncIterator[Scheduler]:
    scheduler = Scheduler(backend.workers, Metrics(), max_queued_tokens=max_queued, fair_rows=fair_rows)
    scheduler.publish_metrics()
    scheduler.start()
    try:
        yield scheduler
    finally:
        backend.gate.set()
        assert scheduler.stop(5)


def sentences(
    backend: DoubleBackend, *texts: str, model: str = "tiny", options: DecodeOptions = GREEDY
) -> list[tuple[Model, DecodeRequest]]:
    return [
        (backend.model(model), DecodeRequest(tuple(backend.tokenizer.encode(text)), options))
        for text in texts
    ]


def words(backend: DoubleBackend, result: Sequence[Hypothesis]) -> str:
    return backend.tokenizer.decode(result[0].token_ids)


def soon(seconds: float = 10) -> float:
    return time.monotonic() + seconds


async def hold(scheduler: Scheduler, backend: DoubleBackend) -> asyncio.Task[object]:
    """Keep the engine busy with the first step of one sentence."""
    backend.gate.clear()
    backend.entered.clear()
    task: asyncio.Task[object] = asyncio.create_task(
        scheduler.submit(sentences(backend, "held up"), soon(60))
    )
    await until(backend.entered.is_set)
    return task


def sample(scheduler: Scheduler, name: str, **labels: str) -> float:
    value = scheduler._metrics.registry.get_sample_value(f"dragoman_{name}", labels)
    assert value is not None
    return value


async def test_a_sentence_joins_the_running_ones_and_waits_for_none(backend: DoubleBackend) -> None:
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


async def test_waiting_sentences_join_in_one_step(backend: DoubleBackend) -> None:
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


@pytest.mark.parametrize("is_noticed_by_worker", [False, True])
async def test_a_sentence_whose_deadline_passes_in_the_queue_is_never_decoded(
    backend: DoubleBackend, pass_time: Callable[[float], None], is_noticed_by_worker: bool
) -> None:
    async with scheduling(backend) as scheduler:
        held = await hold(scheduler, backend)
        late = asyncio.create_task(scheduler.submit(sentences(backend, "late"), soon(20)))
        await until(lambda: sample(scheduler, "queue_depth") == 1)
        pass_time(30)
        if is_noticed_by_worker:
            backend.gate.set()
            # The event loop stands still meanwhile.
            while sample(scheduler, "queue_depth"):
                time.sleep(0.001)
        with pytest.raises(DeadlinePassedError):
            await late
        assert is_noticed_by_worker or not held.done()
        assert sample(scheduler, "queue_depth") == 0
        assert sample(scheduler, "cancelled_total", stage="queued") == 1
        assert sample(scheduler, "cancelled_total", stage="decoding") == 0
        backend.gate.set()
        await held
    assert len(backend.admitted) == 1


async def test_a_deadline_that_passes_while_decoding_ends_it_within_a_step(
    backend: DoubleBackend, pass_time: Callable[[float], None]
) -> None:
    async with scheduling(backend) as scheduler:
        backend.gate.clear()
        slow = asyncio.create_task(scheduler.submit(sentences(backend, "slow one " * 20), soon(20)))
        await until(backend.entered.is_set)
        pass_time(30)
        with pytest.raises(DeadlinePassedError):
            await slow
        assert sample(scheduler, "cancelled_total", stage="decoding") == 1
        backend.gate.set()
        await until(lambda: len(backend.cancelled) == 1)
        assert await scheduler.submit(sentences(backend, "next"), soon())
    assert backend.engines["tiny", 0].sizes == [1, 1, 1]


async def test_a_full_queue_rejects_with_the_time_until_there_is_room(backend: DoubleBackend) -> None:
    backend.room = 1
    async with scheduling(backend, max_queued=10) as scheduler:
        held = await hold(scheduler, backend)
        waiting = asyncio.create_task(scheduler.submit(sentences(backend, "a b c d e f g h i"), soon()))
        await until(lambda: sample(scheduler, "queued_tokens") == 10)
        scheduler._rate.record(1, 3.0)
        with pytest.raises(QueueFullError) as rejection:
            await scheduler.submit(sentences(backend, "one more"), soon(), client="b")
        assert rejection.value.retry_after == 9, "three tokens, at three seconds each"
        with pytest.raises(QueueFullError):
            scheduler.require_capacity("", soon())
        backend.gate.set()
        await asyncio.gather(held, waiting)
        scheduler.require_capacity("", soon())


async def test_one_client_leaves_room_in_the_queue_for_another(backend: DoubleBackend) -> None:
    backend.room = 1
    async with scheduling(backend, max_queued=10) as scheduler:
        held = await hold(scheduler, backend)
        greedy = asyncio.create_task(scheduler.submit(sentences(backend, "a b c d e f g"), soon()))
        await until(lambda: sample(scheduler, "queued_tokens") == 8)
        with pytest.raises(QueueFullError):
            await scheduler.submit(sentences(backend, "h"), soon())
        with pytest.raises(QueueFullError):
            scheduler.require_capacity("", soon())
        scheduler.require_capacity("modest", soon())
        modest = asyncio.create_task(scheduler.submit(sentences(backend, "h"), soon(), client="modest"))
        await until(lambda: sample(scheduler, "queued_tokens") == 10)
        backend.gate.set()
        await asyncio.gather(held, greedy, modest)


async def test_a_deadline_far_shorter_than_the_wait_is_given_up_at_once(backend: DoubleBackend) -> None:
    backend.room = 1
    async with scheduling(backend) as scheduler:
        held = await hold(scheduler, backend)
        waiting = asyncio.create_task(
            scheduler.submit(sentences(backend, "a b c d e f g h i"), soon(60), client="a")
        )
        await until(lambda: sample(scheduler, "queued_tokens") == 10)
        scheduler._rate.record(1, 1.0)
        with pytest.raises(DeadlinePassedError):
            scheduler.require_capacity("a", soon(2))
        scheduler.require_capacity("a", soon(60))
        scheduler.require_capacity("another client, which waits for none of this", soon(2))
        waiting.cancel()
        backend.gate.set()
        await held


async def test_throughput_is_only_measured_while_sentences_wait(backend: DoubleBackend) -> None:
    """An engine with an empty queue is slower than it could be."""
    async with scheduling(backend) as scheduler:
        await scheduler.submit(sentences(backend, "one two"), soon())
        assert scheduler._rate.tokens_per_second is None
        backend.room = 1
        await scheduler.submit(sentences(backend, "one", "two", "three"), soon())
        assert scheduler._rate.tokens_per_second is not None


async def test_work_for_a_client_that_leaves_counts_in_the_throughput(backend: DoubleBackend) -> None:
    backend.room = 1
    async with scheduling(backend) as scheduler:
        leaving = await hold(scheduler, backend)
        waiting = asyncio.create_task(scheduler.submit(sentences(backend, "x"), soon(), client="another"))
        await until(lambda: sample(scheduler, "queue_depth") == 1)
        scheduler._rate.record(1, 1.0)
        leaving.cancel()
        await asyncio.wait([leaving])
        assert (scheduler._rate.tokens_per_second or 0) > 1.9
        backend.gate.set()
        await waiting


async def test_cancelling_the_caller_withdraws_its_sentences(backend: DoubleBackend) -> None:
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


async def test_a_greedy_client_does_not_fill_the_batches_of_a_modest_one(backend: DoubleBackend) -> None:
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


async def test_a_request_that_can_never_fit_gets_the_limit(backend: DoubleBackend) -> None:
    async with scheduling(backend, max_queued=3) as scheduler:
        with pytest.raises(TextTooLongError, match="MAX_QUEUED_TOKENS"):
            await scheduler.submit(sentences(backend, "a b c d"), soon())


class Watcher:
    """Records its calls."""

    def __init__(self) -> None:
        self.told: list[tuple[int, tuple[int, ...], bool]] = []

    def grew(self, index: int, token_ids: Sequence[int]) -> None:
        self.told.append((index, tuple(token_ids), False))

    def finished(self, index: int, hypotheses: Sequence[Hypothesis]) -> None:
        self.told.append((index, hypotheses[0].token_ids, True))


async def test_a_listener_sees_each_sentence_grow_and_never_shrink(backend: DoubleBackend) -> None:
    backend.seconds = 0.011
    watcher = Watcher()
    async with scheduling(backend) as scheduler:
        results = await scheduler.submit(sentences(backend, "a b c d e f", "g h i"), soon(), watcher)
    for index, result in enumerate(results):
        seen = [(ids, final) for i, ids, final in watcher.told if i == index]
        assert len(seen) >= 3
        assert [final for _, final in seen] == [False] * (len(seen) - 1) + [True]
        for (shorter, _), (longer, _) in pairwise(seen):
            assert longer[: len(shorter)] == shorter
        assert seen[-1][0] == result[0].token_ids


# Several engines, and many clients at once


async def test_two_workers_share_one_queue() -> None:
    backend = DoubleBackend(workers=2)
    backend.gate.clear()  # the second worker finds its half, however late it starts
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


async def test_every_sentence_of_a_burst_is_accounted_for() -> None:
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


async def test_the_first_failure_is_the_answer_and_failed_sentences_are_not_unanswered() -> None:
    first, second, third = jobs = [job(3) for _ in range(3)]
    pending = PendingRequest(jobs, None)
    pending.finished(second, DecodingError("one"))
    pending.finished(third, DecodingError("two"))
    assert pending.unanswered == [first]
    with pytest.raises(DecodingError, match="one"):
        await pending.done
