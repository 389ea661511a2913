"""One set of checkpoints in service: it is announced, watched, refused and let go of as a whole."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest

from app.errors import DrainingError
from app.lifecycle.context import Context
from app.lifecycle.model_set import Generation
from app.settings import Settings
from app.translation.request import Order
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio


class Shelf(DoubleBackend):
    """Tells how often it was let go of."""

    closings = 0

    def close(self) -> None:
        self.closings += 1


@pytest.fixture
def backend() -> Shelf:
    return Shelf()


@pytest.fixture
def context() -> Context:
    return Context.of(Settings(_env_file=None))  # type: ignore[call-arg]


@pytest.fixture
async def generation(backend: Shelf, context: Context) -> AsyncIterator[Generation]:
    generation = Generation(backend, context)
    await generation.start()
    yield generation
    backend.gate.set()


def order(*texts: str) -> Order:
    fields = tuple(f"q[{i}]" for i in range(len(texts)))
    return Order(texts=texts, fields=fields, source="en", target="fr", deadline=time.monotonic() + 30)


async def held(generation: Generation, backend: Shelf) -> "asyncio.Task[object]":
    """A translation in the middle of a step."""
    backend.gate.clear()
    task: asyncio.Task[object] = asyncio.create_task(generation.service.translate(order("one two")))
    async with asyncio.timeout(60):
        while not backend.entered.is_set():
            await asyncio.sleep(0.002)
    return task


async def test_it_finishes_what_it_has_and_lets_go_of_everything(
    generation: Generation, backend: Shelf, context: Context
) -> None:
    task = await held(generation, backend)
    closing = asyncio.create_task(generation.close(drain_seconds=10))
    await asyncio.sleep(0.01)
    with pytest.raises(DrainingError):
        await generation.service.translate(order("late"))
    assert backend.closings == 0
    backend.gate.set()
    await closing
    assert task.done()
    assert backend.closings == 1
    assert (context.lifecycle.refusers, context.watchdog._watched) == (set(), [])


async def test_nothing_is_taken_from_under_an_engine_that_is_stuck(
    generation: Generation, backend: Shelf, context: Context
) -> None:
    task = await held(generation, backend)
    context.lifecycle.refuse_work()
    await generation.close(drain_seconds=10)
    assert backend.closings == 0
    assert len(context.watchdog._watched) == 1, "so that somebody hears of it"
    with pytest.raises(DrainingError):
        await task


async def test_a_slow_step_is_waited_for_while_the_process_goes_on(
    generation: Generation, backend: Shelf, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.lifecycle.model_set._STEP_SECONDS", 0.01)
    context.lifecycle.become_ready()
    task = await held(generation, backend)
    task.cancel()
    closing = asyncio.create_task(generation.close(drain_seconds=10))
    await asyncio.sleep(0.1)
    assert backend.closings == 0
    backend.gate.set()
    await closing
    assert (backend.closings, context.watchdog._watched) == (1, [])


@pytest.mark.parametrize("missing", ["engine-1", "background"])
async def test_without_a_thread_to_begin_with_it_lets_go_of_everything(
    context: Context, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    start = threading.Thread.start
    begun: list[threading.Thread] = []

    def start_unless_missing(thread: threading.Thread) -> None:
        if thread.name in (missing, "background"):
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_unless_missing)
    backend = Shelf(workers=2)
    with pytest.raises(RuntimeError, match="thread"):
        await Generation(backend, context).start()
    assert backend.closings == 1
    assert (context.lifecycle.refusers, context.watchdog._watched) == (set(), [])
    assert [thread.name for thread in begun] == ["engine-0", "engine-1"][: 1 + (missing == "background")]
    assert not any(thread.is_alive() for thread in begun)


async def test_it_is_announced_in_the_place_of_the_one_before(
    generation: Generation, context: Context
) -> None:
    generation.announce()
    other = DoubleBackend(("other", (("de", "en"),)), workers=2)
    following = Generation(other, context)
    assert "dragoman_workers 1.0" in context.metrics.exposition().decode()
    following.announce()
    exposition = context.metrics.exposition().decode()
    assert "dragoman_workers 2.0" in exposition
    assert 'model_info{checksum="cccc' in exposition
    assert 'name="other"' in exposition
    assert 'name="tiny"' not in exposition
