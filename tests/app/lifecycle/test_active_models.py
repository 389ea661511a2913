"""The active models from start to end; reloads replace them, and clients notice nothing but the version."""

import asyncio
import dataclasses
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Self
from unittest.mock import Mock

import httpx
import pytest
from starlette.applications import Starlette

from app.backend import Backend, LoadedModel, Model
from app.errors import DrainingError, NotReadyError
from app.lifecycle.active_models import ActiveModels, list_files
from app.lifecycle.context import Context
from app.lifecycle.phase import Phase
from app.main import create_app
from app.settings import Settings
from model.checkpoint.self_test import SelfTestSentence
from model.errors import CheckpointError, ConfigError
from tests.app.conftest import Lines, serving, until
from tests.app.double import DoubleBackend, request_of
from tests.app.http.test_files import send_document

pytestmark = pytest.mark.anyio
REQUEST = {"q": "one two three", "source": "en", "target": "fr"}

# Start and end


@pytest.fixture
def models(context: Context, backend: DoubleBackend) -> ActiveModels:
    return ActiveModels(context, lambda: backend)


async def held(models: ActiveModels, context: Context, backend: DoubleBackend) -> "asyncio.Task[object]":
    """A translation in the middle of a step."""
    await models.start()
    backend.gate.clear()
    task: asyncio.Task[object] = asyncio.create_task(context.service.translate(request_of("one two")))
    await until(backend.entered.is_set)
    return task


async def test_it_serves_from_loading_to_the_end(
    models: ActiveModels, context: Context, backend: DoubleBackend
) -> None:
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

    models = ActiveModels(context, connect)
    await models.start()
    assert (context.lifecycle.phase, context.lifecycle.failure) == (Phase.FAILED, fault)
    assert [record.message for record in caplog.records] == ["the model could not be loaded"] * lines
    await models.stop()


async def test_files_that_cannot_be_looked_at_end_the_process(
    context: Context, backend: DoubleBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.lifecycle.active_models.list_files", Mock(side_effect=MemoryError))
    models = ActiveModels(context, lambda: backend)
    await models.start()
    assert context.lifecycle.phase is Phase.FAILED
    await models.stop()


async def test_a_process_that_was_told_to_end_while_it_loaded_never_becomes_ready(
    context: Context, backend: DoubleBackend
) -> None:
    def connect() -> Backend:
        context.lifecycle.drain()
        return backend

    models = ActiveModels(context, connect)
    await models.start()
    assert context.lifecycle.phase is Phase.DRAINING
    await models.stop()


async def test_stopping_finishes_the_work_and_frees_everything(
    models: ActiveModels, context: Context, backend: DoubleBackend
) -> None:
    task = await held(models, context, backend)
    stopping = asyncio.create_task(models.stop())
    await asyncio.sleep(0.01)
    with pytest.raises(DrainingError):
        await asyncio.wait_for(context.service.translate(request_of("late")), 60)
    assert backend.closings == 0
    backend.gate.set()
    await stopping
    assert task.done()
    assert backend.closings == 1
    assert not context.watchdog._workers


async def test_a_stuck_engine_is_not_closed(
    models: ActiveModels, context: Context, backend: DoubleBackend
) -> None:
    task = await held(models, context, backend)
    context.lifecycle.cancel_work()
    await models.stop()
    assert backend.closings == 0
    assert context.watchdog._workers, "so that the watchdog reports it"
    with pytest.raises(DrainingError):
        await task
    backend.gate.set()


async def test_a_start_without_a_thread_for_each_engine_frees_everything(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start
    begun: list[threading.Thread] = []

    def start_unless_missing(thread: threading.Thread) -> None:
        if thread.name == "engine-1":
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_unless_missing)
    backend = DoubleBackend(workers=2)
    models = ActiveModels(context, lambda: backend)
    await models.start()
    assert isinstance(context.lifecycle.failure, RuntimeError)
    await models.stop()
    assert backend.closings == 2
    assert not context.watchdog._workers
    engines = [thread for thread in begun if thread.name.startswith("engine")]
    assert len(engines) == 1
    assert not any(thread.is_alive() for thread in engines)


# Reloads


def edition(letter: str, *self_test: SelfTestSentence) -> DoubleBackend:
    """A backend whose weights differ by a letter."""
    backend = DoubleBackend()
    backend._models = [
        dataclasses.replace(model, checksum=letter * 64, self_test=self_test) for model in backend.models()
    ]
    return backend


class Loads(DoubleBackend):
    """A backend that lists another edition each time; exceptions are raised.

    Attributes:
        num_listings: How often it was asked for its models.
        listed: Editions that were listed, in order.
    """

    def __init__(self, *editions: DoubleBackend | Exception) -> None:
        super().__init__()
        self.editions = list(editions)
        self.num_listings = 0
        self.listed: list[DoubleBackend] = []
        self._edition_of: dict[Model, DoubleBackend] = {}

    @property
    def closed(self) -> list[DoubleBackend]:
        """Editions whose engines were closed."""
        return [each for each in self.listed if each.closings]

    def list_models(self) -> Sequence[Model]:
        self.num_listings += 1
        found = self.editions.pop(0)
        if isinstance(found, Exception):
            raise found
        self.listed.append(found)
        models = found.list_models()
        self._edition_of.update(dict.fromkeys(models, found))
        return models

    def load(self, model: Model) -> LoadedModel:
        return self._edition_of[model].load(model)


def application(*editions: DoubleBackend) -> tuple[Starlette, Loads]:
    """An application that loads these editions one after the other, and its backend."""
    loads = Loads(*editions)
    return create_app(Settings(_env_file=None, watch_seconds=0), connect=lambda: loads), loads


def request_reload(app: Starlette) -> None:
    app.state.context.lifecycle.reload_requested.set()


async def reloads(app: Starlette, outcome: str, count: int = 1) -> None:
    """Wait until there were as many."""
    series = {"outcome": outcome}
    registry = app.state.context.metrics.registry
    await until(lambda: registry.get_sample_value("dragoman_reloads_total", series) == count)


async def version(client: httpx.AsyncClient) -> str:
    response = await client.post("/translate", json=REQUEST)
    assert response.status_code == 200
    return str(response.json()["model_version"])


async def test_a_requested_reload_replaces_the_models(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    old, new = edition("a"), edition("b")
    app, loads = application(old, new)
    async with serving(app) as client:
        assert await version(client) == "1+aaaaaaaa"
        request_reload(app)
        await reloads(app, "replaced")
        assert await version(client) == "1+bbbbbbbb"
        await until(lambda: loads.closed == [old])
        metrics = (await client.get("/metrics")).text
        assert f'checksum="{"b" * 64}"' in metrics
        assert "a" * 64 not in metrics
        assert "dragoman_model_load_seconds 0.5" in metrics
    assert loads.closed == [old, new]


async def test_earlier_requests_are_answered_by_the_old_models() -> None:
    old, new = edition("a"), edition("b")
    app, loads = application(old, new)
    async with serving(app) as client:
        old.seconds = 0.2  # seven seconds in all, unless the rest is cut short
        early = asyncio.create_task(client.post("/translate", json=REQUEST | {"q": "word " * 35}))
        await until(old.entered.is_set)
        request_reload(app)
        await reloads(app, "replaced")
        assert await version(client) == "1+bbbbbbbb"
        assert (loads.closed, early.done()) == ([], False)
        old.seconds = 0.0
        response = await early
        assert (response.status_code, response.json()["model_version"]) == (200, "1+aaaaaaaa")
        await until(lambda: loads.closed == [old])


async def test_a_document_is_finished_by_the_old_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.translation.file_jobs._PORTION_CHARACTERS", 4)
    old, new = edition("a"), edition("b")
    app, loads = application(old, new)
    async with serving(app) as client:
        old.gate.clear()
        path, key = await send_document(client, b"one\n\ntwo\n\nsix")
        await until(old.entered.is_set)
        request_reload(app)
        await reloads(app, "replaced")
        old.gate.set()
        await until(lambda: loads.closed == [old])
        assert (await client.post(f"{path}/result", json=key)).content == b"ONE\n\nTWO\n\nSIX"
    assert [len(each.admitted) for each in (old, new)] == [3, 0]
    outcome = {"outcome": "loaded"}
    assert app.state.context.metrics.registry.get_sample_value("dragoman_model_loads_total", outcome) == 2


async def test_no_request_fails_while_versions_change() -> None:
    editions = [edition(letter) for letter in "abcd"]
    for each in editions:
        each.seconds = 0.002
    app, _ = application(*editions)
    async with serving(app) as client:
        found: list[str] = []
        is_over = asyncio.Event()

        async def go_on() -> None:
            while not is_over.is_set():
                found.append(await version(client))

        clients = [asyncio.create_task(go_on()) for _ in range(8)]
        await until(lambda: "1+aaaaaaaa" in found)
        for count in range(1, len(editions)):
            request_reload(app)
            await reloads(app, "replaced", count)
        await until(lambda: "1+dddddddd" in found)
        is_over.set()
        await asyncio.gather(*clients)
        assert app.state.context.lifecycle.in_flight == 0


async def test_a_reload_that_is_requested_while_loading_comes_after_it() -> None:
    app, _ = application(*map(edition, "ab"))
    async with app.router.lifespan_context(app):
        request_reload(app)
        await reloads(app, "replaced")


class Watched:
    """Active models that watch one folder, and what they have loaded; the tests decide when they look."""

    def __init__(self, folder: Path, *editions: DoubleBackend | Exception) -> None:
        self.loads = Loads(*editions)
        self.context = Context(Settings(_env_file=None, checkpoint=(folder,), watch_seconds=1))
        self.models = ActiveModels(self.context, lambda: self.loads)

    async def __aenter__(self) -> Self:
        await self.models.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.models.stop()

    async def look(self, count: int = 1, *, is_requested: bool = False) -> str:
        """Look so many times; gives the version that is served then."""
        for _ in range(count):
            await self.models.look(is_requested=is_requested)
        return self.context.service.catalogue.models[0].version

    async def reload(self) -> str:
        """Reload on request; gives the version that is served then."""
        return await self.look(is_requested=True)

    def count(self, outcome: str) -> float | None:
        registry = self.context.metrics.registry
        return registry.get_sample_value("dragoman_reloads_total", {"outcome": outcome})


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (CheckpointError("checkpoint x is corrupt"), "checkpoint x is corrupt"),
        (ConfigError("shortlist", "off", "on"), "`shortlist` must be off, but is 'on' instead"),
        (RuntimeError("secret"), "RuntimeError"),
    ],
)
async def test_models_that_cannot_be_loaded_change_nothing(
    tmp_path: Path, failure: Exception, reason: str, lines: Lines
) -> None:
    async with Watched(tmp_path, edition("a"), failure, edition("c")) as watched:
        assert await watched.reload() == "1+aaaaaaaa"
        (line,) = [line for line in lines() if str(line["event"]).startswith("reload failed")]
        assert (line.get("reason") or line["fault"]) == reason
        assert watched.count("failed") == 1
        assert await watched.reload() == "1+cccccccc"


async def test_models_that_cannot_be_closed_do_not_prevent_reloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    async with Watched(tmp_path, *map(edition, "abc")) as watched:
        (old,) = watched.loads.listed
        monkeypatch.setattr(old, "close", Mock(side_effect=OSError("the device is gone")))
        assert await watched.reload() == "1+bbbbbbbb"
        assert await watched.reload() == "1+cccccccc"
    errors = [line["event"] for line in lines() if line["level"] == "error"]
    assert errors == ["a model could not be closed"]


@pytest.mark.parametrize(
    "fault",
    ["app.lifecycle.registry.ModelRegistry.drop_removed", "app.lifecycle.active_models.reclaim_memory"],
)
async def test_memory_that_cannot_be_freed_does_not_make_a_reload_fail_nor_prevent_the_next(
    monkeypatch: pytest.MonkeyPatch, lines: Lines, fault: str
) -> None:
    app, _ = application(*map(edition, "abc"))
    async with serving(app) as client:
        with monkeypatch.context() as patch:
            patch.setattr(fault, Mock(side_effect=MemoryError))
            request_reload(app)
            await reloads(app, "replaced")
            await until(lambda: any(line["level"] == "error" for line in lines()))
        request_reload(app)
        await reloads(app, "replaced", 2)
        assert await version(client) == "1+cccccccc"
        await reloads(app, "failed", 0)
    errors = [(line["event"], line["fault"]) for line in lines() if line["level"] == "error"]
    assert errors == [("looking for changed checkpoints failed", "MemoryError")]


async def test_the_same_models_change_nothing(tmp_path: Path) -> None:
    old, same = edition("a"), edition("a")
    async with Watched(tmp_path, old, same) as watched:
        service = watched.context.service
        await watched.reload()
        assert watched.context.service is service
        assert (watched.loads.closed, watched.count("unchanged")) == ([], 1)


async def test_new_self_test_sentences_are_verified_although_the_weights_are_the_same(tmp_path: Path) -> None:
    sentences = [
        SelfTestSentence(source_language="en", target_language="fr", source="one two", translation=each)
        for each in ("ONE TWO", "ONE TWO", "quite another")
    ]
    editions = edition("a"), *(edition("a", sentence) for sentence in sentences)
    async with Watched(tmp_path, *editions) as watched:
        for outcome in ("replaced", "unchanged", "failed"):
            await watched.reload()
            assert watched.count(outcome) == 1


async def test_a_draining_process_does_not_reload(tmp_path: Path) -> None:
    async with Watched(tmp_path, edition("a"), edition("b")) as watched:
        watched.context.lifecycle.drain()
        assert await watched.reload() == "1+aaaaaaaa"
        assert watched.loads.num_listings == 1


# A watched folder


def put(folder: Path, *names: str, content: str = "{}") -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(content)


async def test_changed_files_are_loaded_after_two_looks_without_change(tmp_path: Path, lines: Lines) -> None:
    put(tmp_path / "one", "config.json", "provenance.json")
    editions = edition("a"), edition("b"), CheckpointError("half of it"), edition("c")
    async with Watched(tmp_path, *editions) as watched:
        assert await watched.look(5) == "1+aaaaaaaa"
        put(tmp_path / "two", "config.json")
        assert await watched.look(2) == "1+aaaaaaaa"
        assert await watched.look() == "1+bbbbbbbb"
        put(tmp_path / "two", "model.safetensors", content="half")
        assert await watched.look(10) == "1+bbbbbbbb"
        assert (watched.count("failed"), watched.loads.num_listings) == (1, 3), "tried once for each change"
        put(tmp_path / "two", "model.safetensors", content="the whole of it")
        assert await watched.look(3) == "1+cccccccc"
    assert [line["reason"] for line in lines() if line["level"] == "error"] == ["half of it"]
    loaded = [line["version"] for line in lines() if line["event"] == "model loaded"]
    assert loaded == ["1+aaaaaaaa", "1+bbbbbbbb", "1+cccccccc"]
    reloaded = [(line["model"], line["version"]) for line in lines() if line["event"] == "reloaded"]
    assert reloaded == [("tiny", "1+bbbbbbbb"), ("tiny", "1+cccccccc")]


@pytest.mark.parametrize("looks_between_writes", [1, 2])
async def test_a_slow_copy_logs_no_error(tmp_path: Path, lines: Lines, looks_between_writes: int) -> None:
    put(tmp_path, "config.json", "provenance.json")
    async with Watched(tmp_path, edition("a"), edition("b")) as watched:
        for size in range(10):
            put(tmp_path, "model.safetensors", content="x" * size)
            assert await watched.look(looks_between_writes) == "1+aaaaaaaa"
        assert await watched.look(2) == "1+bbbbbbbb"
    assert [line for line in lines() if line["level"] == "error"] == []


async def test_files_that_change_while_they_are_loaded_log_no_error(
    tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "config.json")
    async with Watched(tmp_path, edition("a"), CheckpointError("half of it"), edition("b")) as watched:
        list_models = watched.loads.list_models

        def list_during_a_copy() -> Sequence[Model]:
            put(tmp_path, "model.safetensors", content="the whole of it")
            return list_models()

        monkeypatch.setattr(watched.loads, "list_models", list_during_a_copy)
        put(tmp_path, "model.safetensors", content="half")
        assert await watched.look(3) == "1+aaaaaaaa"
        assert (watched.count("failed"), watched.loads.num_listings) == (0, 2)
        monkeypatch.undo()
        assert await watched.look(3) == "1+bbbbbbbb"
    assert [line for line in lines() if line["level"] == "error"] == []


async def test_a_failed_start_is_not_tried_again(tmp_path: Path) -> None:
    put(tmp_path, "config.json")
    watched = Watched(tmp_path, CheckpointError("no"))
    await watched.models.start()
    put(tmp_path, "model.safetensors")
    for _ in range(5):
        await watched.models.look()
    assert watched.loads.num_listings == 1
    assert isinstance(watched.context.lifecycle.failure, CheckpointError)


def test_the_listing_shows_new_changed_replaced_and_missing_files(tmp_path: Path) -> None:
    put(tmp_path / "one", "config.json", "model.safetensors")
    (tmp_path / ".one.writing").mkdir()
    seen = [list_files([tmp_path])]
    put(tmp_path / ".one.writing", "config.json")
    assert list_files([tmp_path]) == seen[0]
    put(tmp_path / "two", "model.safetensors")
    assert list_files([tmp_path]) == seen[0]  # without a configuration it is no checkpoint yet
    put(tmp_path / "two", "config.json")
    seen.append(list_files([tmp_path]))
    status = (tmp_path / "one" / "config.json").stat()
    put(tmp_path / "one", "new")
    (tmp_path / "one" / "new").write_text("[]")
    os.utime(tmp_path / "one" / "new", ns=(status.st_atime_ns, status.st_mtime_ns))
    (tmp_path / "one" / "new").replace(tmp_path / "one" / "config.json")
    seen.append(list_files([tmp_path]))
    (tmp_path / "two" / "config.json").unlink()
    seen.append(list_files([tmp_path]))
    assert len(set(seen)) == 4
    (tmp_path / "one" / "link").symlink_to("nowhere")
    assert list_files([tmp_path]) == seen[-1] != frozenset()
    assert list_files([tmp_path / "nowhere"]) == frozenset()
