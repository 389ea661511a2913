"""The active models from start to end; test_reloading tests how their list changes."""

import asyncio
import threading
import time

import pytest

from app.backend import Backend
from app.errors import DrainingError, NotReadyError
from app.lifecycle.active_models import ActiveModels
from app.lifecycle.context import Context
from app.lifecycle.phase import Phase
from app.translation.jobs import TranslationRequest
from model.errors import CheckpointError
from tests.app.conftest import until
from tests.app.double import DoubleBackend
from tests.app.lifecycle.conftest import active_models_of

pytestmark = pytest.mark.anyio


class CountingBackend(DoubleBackend):
    """Counts how often an engine was closed."""

    closings = 0

    def close(self) -> None:
        self.closings += 1


@pytest.fixture
def backend() -> CountingBackend:
    return CountingBackend()


def request(*texts: str) -> TranslationRequest:
    fields = tuple(f"q[{i}]" for i in range(len(texts)))
    return TranslationRequest(
        texts=texts, fields=fields, source="en", target="fr", deadline=time.monotonic() + 30
    )


async def held(models: ActiveModels, context: Context, backend: DoubleBackend) -> "asyncio.Task[object]":
    """A translation in the middle of a step."""
    await models.start()
    backend.gate.clear()
    task: asyncio.Task[object] = asyncio.create_task(context.service.translate(request("one two")))
    await until(backend.entered.is_set)
    return task


def leftovers(context: Context) -> tuple[object, ...]:
    return context.lifecycle.cancel_callbacks, context.watchdog._watched


async def test_it_serves_from_loading_to_the_end(context: Context, backend: CountingBackend) -> None:
    models = active_models_of(lambda: backend, context)
    with pytest.raises(NotReadyError):
        _ = context.service
    await models.start()
    context.lifecycle.require_ready()
    (model,) = context.service.catalogue.models
    assert (model.card.name, model.is_pinned, model.loaded is not None) == ("tiny", True, True)
    await models.stop()
    with pytest.raises(DrainingError):
        context.lifecycle.require_ready()
    assert backend.closings == 1


@pytest.mark.parametrize(
    ("fault", "lines"), [(CheckpointError("cut short"), 0), (ZeroDivisionError("a fault of ours"), 1)]
)
async def test_a_failure_is_left_for_the_server_and_only_faults_of_ours_are_logged(
    context: Context, caplog: pytest.LogCaptureFixture, fault: Exception, lines: int
) -> None:
    def connect() -> Backend:
        raise fault

    models = active_models_of(connect, context)
    await models.start()
    assert (context.lifecycle.phase, context.lifecycle.failure) == (Phase.FAILED, fault)
    assert [record.message for record in caplog.records] == ["the model could not be loaded"] * lines
    await models.stop()


async def test_a_process_that_was_told_to_end_while_it_loaded_never_becomes_ready(
    context: Context, backend: CountingBackend
) -> None:
    def connect() -> Backend:
        context.lifecycle.drain()
        return backend

    models = active_models_of(connect, context)
    await models.start()
    assert context.lifecycle.phase is Phase.DRAINING
    await models.stop()


async def test_stopping_finishes_the_work_and_frees_everything(
    context: Context, backend: CountingBackend
) -> None:
    models = active_models_of(lambda: backend, context)
    task = await held(models, context, backend)
    stopping = asyncio.create_task(models.stop())
    await asyncio.sleep(0.01)
    with pytest.raises(DrainingError):
        await context.service.translate(request("late"))
    assert backend.closings == 0
    backend.gate.set()
    await stopping
    assert task.done()
    assert backend.closings == 1
    assert leftovers(context) == (set(), [])


async def test_a_stuck_engine_is_not_closed(context: Context, backend: CountingBackend) -> None:
    models = active_models_of(lambda: backend, context)
    task = await held(models, context, backend)
    context.lifecycle.cancel_work()
    await models.stop()
    assert backend.closings == 0
    assert len(context.watchdog._watched) == 1, "so that the watchdog reports it"
    with pytest.raises(DrainingError):
        await task
    backend.gate.set()


@pytest.mark.parametrize("missing", ["engine-1", "background"])
async def test_a_start_without_threads_frees_everything(
    context: Context, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    start = threading.Thread.start
    begun: list[threading.Thread] = []

    def start_unless_missing(thread: threading.Thread) -> None:
        has_workers = any(each.name == "engine-0" for each in begun)
        if thread.name == missing and (has_workers or missing == "engine-1"):
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_unless_missing)
    backend = CountingBackend(workers=2)
    models = active_models_of(lambda: backend, context)
    await models.start()
    assert isinstance(context.lifecycle.failure, RuntimeError)
    await models.stop()
    assert backend.closings == 2
    assert leftovers(context) == (set(), [])
    engines = [thread for thread in begun if thread.name.startswith("engine")]
    assert len(engines) == 1 + (missing == "background")
    assert not any(thread.is_alive() for thread in engines)


async def test_metrics_show_the_workers_and_the_models(context: Context) -> None:
    backend = DoubleBackend(("other", (("de", "en"),)), workers=2)
    models = active_models_of(lambda: backend, context)
    await models.start()
    exposition = context.metrics.exposition().decode()
    await models.stop()
    for sample in (
        "dragoman_workers 2.0",
        'dragoman_model_info{checksum="' + "c" * 64,
        'dragoman_model_memory_bytes{name="other"} 100.0',
        "dragoman_models_listed 1.0",
        "dragoman_models_loaded 1.0",
        'dragoman_model_loads_total{outcome="loaded"} 1.0',
    ):
        assert sample in exposition
