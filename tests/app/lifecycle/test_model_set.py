"""One model set: warm-up, metrics, watchdog, forced end, closing, and the memory it leaves."""

import asyncio
import threading
import time
import weakref
from collections.abc import AsyncIterator

import pytest

from app.errors import DrainingError
from app.lifecycle.context import Context
from app.lifecycle.model_set import ModelSet, reclaim_memory, warm_up
from app.main import create_app
from app.settings import Settings
from app.translation.request import TranslationRequest
from model.errors import CheckpointError, DecodingError
from tests.app.double import DoubleBackend, DoubleEngine
from tests.app.lifecycle.conftest import model_set_of

pytestmark = pytest.mark.anyio
TWO = (("one", (("en", "fr"),)), ("two", (("fr", "en"),)))


class CountingBackend(DoubleBackend):
    """Counts how often it was closed."""

    closings = 0

    def close(self) -> None:
        self.closings += 1


@pytest.fixture
def backend() -> CountingBackend:
    return CountingBackend()


@pytest.fixture
async def model_set(backend: CountingBackend, context: Context) -> AsyncIterator[ModelSet]:
    model_set = model_set_of(backend, context)
    await model_set.start()
    yield model_set
    backend.gate.set()


def request(*texts: str) -> TranslationRequest:
    fields = tuple(f"q[{i}]" for i in range(len(texts)))
    return TranslationRequest(
        texts=texts, fields=fields, source="en", target="fr", deadline=time.monotonic() + 30
    )


async def held(model_set: ModelSet, backend: CountingBackend) -> "asyncio.Task[object]":
    """A translation in the middle of a step."""
    backend.gate.clear()
    task: asyncio.Task[object] = asyncio.create_task(model_set.service.translate(request("one two")))
    async with asyncio.timeout(60):
        while not backend.entered.is_set():
            await asyncio.sleep(0.002)
    return task


async def test_closing_finishes_the_work_and_frees_everything(
    model_set: ModelSet, backend: CountingBackend, context: Context
) -> None:
    task = await held(model_set, backend)
    closing = asyncio.create_task(model_set.close(drain_seconds=10))
    await asyncio.sleep(0.01)
    with pytest.raises(DrainingError):
        await model_set.service.translate(request("late"))
    assert backend.closings == 0
    backend.gate.set()
    await closing
    assert task.done()
    assert backend.closings == 1
    assert (context.lifecycle.cancel_callbacks, context.watchdog._watched) == (set(), [])


async def test_a_stuck_engine_is_not_closed(
    model_set: ModelSet, backend: CountingBackend, context: Context
) -> None:
    task = await held(model_set, backend)
    context.lifecycle.cancel_work()
    await model_set.close(drain_seconds=10)
    assert backend.closings == 0
    assert len(context.watchdog._watched) == 1, "so that the watchdog reports it"
    with pytest.raises(DrainingError):
        await task


async def test_closing_waits_for_a_slow_step_while_the_process_goes_on(
    model_set: ModelSet, backend: CountingBackend, context: Context, monkeypatch: pytest.MonkeyPatch
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
async def test_a_start_without_threads_frees_everything(
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
    backend = CountingBackend(workers=2)
    with pytest.raises(RuntimeError, match="thread"):
        await model_set_of(backend, context).start()
    assert backend.closings == 1
    assert (context.lifecycle.cancel_callbacks, context.watchdog._watched) == (set(), [])
    assert [thread.name for thread in begun] == ["engine-0", "engine-1"][: 1 + (missing == "background")]
    assert not any(thread.is_alive() for thread in begun)


async def test_metrics_show_the_newest_model_set(model_set: ModelSet, context: Context) -> None:
    model_set.publish()
    other = DoubleBackend(("other", (("de", "en"),)), workers=2)
    other_set = model_set_of(other, context)
    assert "dragoman_workers 1.0" in context.metrics.exposition().decode()
    other_set.publish()
    exposition = context.metrics.exposition().decode()
    assert "dragoman_workers 2.0" in exposition
    assert 'model_info{checksum="cccc' in exposition
    assert 'name="other"' in exposition
    assert 'name="tiny"' not in exposition


async def test_each_workers_engine_of_each_checkpoint_translates() -> None:
    backend = DoubleBackend(*TWO, workers=2)
    warm_up(backend)
    assert len(backend.engines) == 4
    assert all(engine.sizes and engine.is_idle for engine in backend.engines.values())


async def test_an_engine_that_cannot_translate_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DoubleEngine, "_result", lambda *_: DecodingError("not a number"))
    with pytest.raises(CheckpointError, match="checkpoint one cannot be served: not a number"):
        warm_up(DoubleBackend(*TWO))


async def test_a_process_whose_engines_cannot_translate_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DoubleEngine, "_result", lambda *_: DecodingError("not a number"))
    app = create_app(Settings(_env_file=None), DoubleBackend())
    async with app.router.lifespan_context(app):
        assert isinstance(app.state.context.lifecycle.failure, CheckpointError)


async def test_reference_cycles_are_freed() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    cycle = Cycle()
    seen = weakref.ref(cycle)
    del cycle
    reclaim_memory()
    assert seen() is None
