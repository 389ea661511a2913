"""One set of checkpoints in service: it is announced, watched, refused and let go of as a whole."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest

from app.errors import DrainingError
from app.lifecycle.context import Context
from app.lifecycle.model_set import ModelSet
from app.settings import Settings
from app.translation.request import TranslationRequest
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
async def model_set(backend: Shelf, context: Context) -> AsyncIterator[ModelSet]:
    model_set = ModelSet(backend, context)
    await model_set.start()
    yield model_set
    backend.gate.set()


def order(*texts: str) -> TranslationRequest:
    fields = tuple(f"q[{i}]" for i in range(len(texts)))
    return TranslationRequest(
        texts=texts, fields=fields, source="en", target="fr", deadline=time.monotonic() + 30
    )


async def held(model_set: ModelSet, backend: Shelf) -> "asyncio.Task[object]":
    """A translation in the middle of a step."""
    backend.gate.clear()
    task: asyncio.Task[object] = asyncio.create_task(model_set.service.translate(order("one two")))
    async with asyncio.timeout(60):
        while not backend.entered.is_set():
            await asyncio.sleep(0.002)
    return task


async def test_it_finishes_what_it_has_and_lets_go_of_everything(
    model_set: ModelSet, backend: Shelf, context: Context
) -> None:
    task = await held(model_set, backend)
    closing = asyncio.create_task(model_set.close(drain_seconds=10))
    await asyncio.sleep(0.01)
    with pytest.raises(DrainingError):
        await model_set.service.translate(order("late"))
    assert backend.closings == 0
    backend.gate.set()
    await closing
    assert task.done()
    assert backend.closings == 1
    assert (context.lifecycle.cancel_callbacks, context.watchdog._watched) == (set(), [])


async def test_nothing_is_taken_from_under_an_engine_that_is_stuck(
    model_set: ModelSet, backend: Shelf, context: Context
) -> None:
    task = await held(model_set, backend)
    context.lifecycle.cancel_work()
    await model_set.close(drain_seconds=10)
    assert backend.closings == 0
    assert len(context.watchdog._watched) == 1, "so that somebody hears of it"
    with pytest.raises(DrainingError):
        await task


async def test_a_slow_step_is_waited_for_while_the_process_goes_on(
    model_set: ModelSet, backend: Shelf, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.lifecycle.model_set._STEP_SECONDS", 0.01)
    context.lifecycle.become_ready()
    task = await held(model_set, backend)
    task.cancel()
    closing = asyncio.create_task(model_set.close(drain_seconds=10))
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
        await ModelSet(backend, context).start()
    assert backend.closings == 1
    assert (context.lifecycle.cancel_callbacks, context.watchdog._watched) == (set(), [])
    assert [thread.name for thread in begun] == ["engine-0", "engine-1"][: 1 + (missing == "background")]
    assert not any(thread.is_alive() for thread in begun)


async def test_it_is_announced_in_the_place_of_the_one_before(model_set: ModelSet, context: Context) -> None:
    model_set.announce()
    other = DoubleBackend(("other", (("de", "en"),)), workers=2)
    following = ModelSet(other, context)
    assert "dragoman_workers 1.0" in context.metrics.exposition().decode()
    following.announce()
    exposition = context.metrics.exposition().decode()
    assert "dragoman_workers 2.0" in exposition
    assert 'model_info{checksum="cccc' in exposition
    assert 'name="other"' in exposition
    assert 'name="tiny"' not in exposition
