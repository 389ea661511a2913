"""Reloads replace the models; clients notice nothing but the version."""

import asyncio
import dataclasses
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import httpx
import pytest
from starlette.applications import Starlette

from app.backend import LoadedModel, Model
from app.background import in_background
from app.lifecycle.context import Context
from app.lifecycle.reloading import Reloader, list_files
from app.main import create_app
from app.settings import Settings
from model.checkpoint.self_test import SelfTestSentence
from model.errors import CheckpointError, ConfigError
from tests.app.conftest import Lines, client_of, until
from tests.app.double import DoubleBackend
from tests.app.lifecycle.conftest import active_models_of

pytestmark = pytest.mark.anyio
REQUEST = {"q": "one two three", "source": "en", "target": "fr"}


def edition(letter: str) -> DoubleBackend:
    """A backend whose weights differ by a letter."""
    backend = DoubleBackend()
    backend._models = [dataclasses.replace(model, checksum=letter * 64) for model in backend.models()]
    return backend


class Loads:
    """A backend that lists another edition each time; exceptions are raised.

    Attributes:
        num_listings: How often it was asked for its models.
        listed: Editions that were listed, in order.
        closed: Editions whose engines were closed, in order.
    """

    workers = 1

    def __init__(self, *editions: DoubleBackend | Exception) -> None:
        self.editions = list(editions)
        self.num_listings = 0
        self.listed: list[DoubleBackend] = []
        self.closed: list[DoubleBackend] = []
        self._edition_of: dict[Model, DoubleBackend] = {}

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
        found = self._edition_of[model]
        close = found.close
        found.close = lambda: (self.closed.append(found), close())[1]  # type: ignore[method-assign]
        return found.load(model)

    def verify(self, model: Model) -> None:
        pass

    def memory(self) -> Mapping[str, int]:
        return {}

    def graphs(self) -> Mapping[str, int]:
        return {}


@asynccontextmanager
async def serving(loads: Loads, **settings: object) -> AsyncIterator[tuple[Starlette, httpx.AsyncClient]]:
    """An application that has loaded what comes first."""
    values = {"watch_seconds": 0} | settings
    app = create_app(Settings(_env_file=None, **values), connect=lambda: loads)
    async with app.router.lifespan_context(app), client_of(app) as client:
        async with asyncio.timeout(60):
            while (await client.get("/readyz")).status_code != 200:
                await asyncio.sleep(0.005)
        yield app, client


def request_reload(app: Starlette) -> None:
    app.state.context.lifecycle.reload_requested.set()


async def reloads(app: Starlette, outcome: str, count: int = 1) -> None:
    """Wait until there were as many."""
    series = {"outcome": outcome}
    registry = app.state.context.metrics.registry
    await until(lambda: registry.get_sample_value("dragoman_reloads_total", series) == count)


async def closed(loads: Loads, *backends: DoubleBackend) -> None:
    """Wait until exactly these were closed."""
    await until(lambda: loads.closed == list(backends))


async def version(client: httpx.AsyncClient) -> str:
    response = await client.post("/translate", json=REQUEST)
    assert response.status_code == 200
    return str(response.json()["model_version"])


async def test_a_requested_reload_replaces_the_models(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    old, new = edition("a"), edition("b")
    loads = Loads(old, new)
    async with serving(loads) as (app, client):
        assert await version(client) == "1+aaaaaaaa"
        request_reload(app)
        await reloads(app, "replaced")
        assert await version(client) == "1+bbbbbbbb"
        await closed(loads, old)
        metrics = (await client.get("/metrics")).text
        assert f'checksum="{"b" * 64}"' in metrics
        assert "a" * 64 not in metrics
        assert "dragoman_model_load_seconds 0.5" in metrics
    assert loads.closed == [old, new]


async def test_earlier_requests_are_answered_by_the_old_models() -> None:
    old, new = edition("a"), edition("b")
    loads = Loads(old, new)
    async with serving(loads) as (app, client):
        old.seconds = 0.4  # a quarter of a minute in all, unless the rest is cut short
        early = asyncio.create_task(client.post("/translate", json=REQUEST | {"q": "word " * 35}))
        await until(old.entered.is_set)
        request_reload(app)
        await reloads(app, "replaced")
        assert await version(client) == "1+bbbbbbbb"
        assert (loads.closed, early.done()) == ([], False)
        old.seconds = 0.0
        response = await early
        assert (response.status_code, response.json()["model_version"]) == (200, "1+aaaaaaaa")
        await closed(loads, old)


async def test_no_request_fails_while_versions_change() -> None:
    editions = [edition(letter) for letter in "abcdef"]
    for each in editions:
        each.seconds = 0.002
    async with serving(Loads(*editions)) as (app, client):
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
        await until(lambda: "1+ffffffff" in found)
        is_over.set()
        await asyncio.gather(*clients)
        assert app.state.context.lifecycle.in_flight == 0


async def test_a_reload_that_is_requested_while_loading_comes_after_it() -> None:
    app = create_app(Settings(_env_file=None, watch_seconds=0), connect=lambda: Loads(*map(edition, "ab")))
    async with app.router.lifespan_context(app):
        request_reload(app)
        await reloads(app, "replaced")


class Watched:
    """A reloader that watches one folder, and what it has loaded."""

    def __init__(self, folder: Path, *editions: DoubleBackend | Exception) -> None:
        self.loads = Loads(*editions)
        self.context = Context(Settings(_env_file=None, checkpoint=(folder,)))
        self._active_models = active_models_of(lambda: self.loads, self.context)
        self.reloader = Reloader(
            self._active_models,
            self.context.lifecycle,
            self.context.metrics,
            paths=(folder,),
            watch_seconds=1.0,
        )

    async def __aenter__(self) -> Self:
        await self.reloader.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._active_models.stop()

    async def look(self, count: int = 1, *, is_requested: bool = False) -> str:
        """Look so many times; gives the version that is served then."""
        for _ in range(count):
            await self.reloader.look(is_requested=is_requested)
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


async def test_models_that_cannot_translate_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = edition("b")
    monkeypatch.setattr(broken.engine("tiny", 0), "step", _raise(CheckpointError("not a number")))
    async with Watched(tmp_path, edition("a"), broken) as watched:
        assert await watched.reload() == "1+aaaaaaaa"
        assert (watched.loads.closed, watched.count("failed")) == ([broken], 1)


async def test_models_that_cannot_be_closed_do_not_prevent_reloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    async with Watched(tmp_path, *map(edition, "abc")) as watched:
        (old,) = watched.loads.listed
        monkeypatch.setattr(old, "close", _raise(OSError("the device is gone")))
        assert await watched.reload() == "1+bbbbbbbb"
        assert await watched.reload() == "1+cccccccc"
    errors = [line["event"] for line in lines() if line["level"] == "error"]
    assert errors == ["a model could not be closed"]


def _raise(fault: Exception) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise fault

    return fail


async def test_the_same_models_change_nothing(tmp_path: Path) -> None:
    old, same = edition("a"), edition("a")
    async with Watched(tmp_path, old, same) as watched:
        service = watched.context.service
        await watched.reload()
        assert watched.context.service is service
        assert (watched.loads.closed, watched.count("unchanged")) == ([], 1)


async def test_new_self_test_sentences_are_verified_although_the_weights_are_the_same(tmp_path: Path) -> None:
    editions = [edition("a") for _ in range(4)]
    for each, translation in zip(editions[1:], ("ONE TWO", "ONE TWO", "quite another"), strict=True):
        sentence = SelfTestSentence(
            source_language="en", target_language="fr", source="one two", translation=translation
        )
        each._models = [dataclasses.replace(model, self_test=(sentence,)) for model in each.models()]
    async with Watched(tmp_path, *editions) as watched:
        for outcome in ("replaced", "unchanged", "failed"):
            await watched.reload()
            assert watched.count(outcome) == 1


async def test_a_draining_process_does_not_reload(tmp_path: Path) -> None:
    async with Watched(tmp_path, edition("a"), edition("b")) as watched:
        watched.context.lifecycle.drain()
        assert await watched.reload() == "1+aaaaaaaa"
        assert watched.loads.num_listings == 1


# A watched folder; the tests decide when the reloader looks.


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
    await watched.reloader.start()
    put(tmp_path, "model.safetensors")
    for _ in range(5):
        await watched.reloader.look()
    assert watched.loads.num_listings == 1
    assert isinstance(watched.context.lifecycle.failure, CheckpointError)


class Threads:
    """Stands in for the system's threads; there are none while `are_short` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.are_short = False
        monkeypatch.setattr("app.lifecycle.reloading.in_background", self._in_background)

    async def _in_background(self, work: Callable[[], object]) -> object:
        if self.are_short:
            raise RuntimeError("can't start new thread")
        return await in_background(work)


async def test_a_look_without_a_thread_is_logged_and_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    put(tmp_path, "config.json")
    threads = Threads(monkeypatch)
    async with Watched(tmp_path, *map(edition, "abc")) as watched:
        threads.are_short = True
        assert await watched.reload() == "1+aaaaaaaa"
        threads.are_short = False
        assert await watched.look() == "1+bbbbbbbb", "the request is not forgotten"
        put(tmp_path, "model.safetensors")
        assert await watched.look(3) == "1+cccccccc"
    faults = [(line["event"], line["fault"]) for line in lines() if line["level"] == "error"]
    assert faults == [("looking for changed checkpoints failed", "RuntimeError")]


async def test_without_a_thread_for_the_first_look_it_serves_and_loads_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "config.json")
    threads, watched = Threads(monkeypatch), Watched(tmp_path, *map(edition, "ab"))
    threads.are_short = True
    async with watched:
        assert watched.context.service.catalogue.models[0].version == "1+aaaaaaaa"
        threads.are_short = False
        assert await watched.look(3) == "1+bbbbbbbb"


async def test_memory_that_cannot_be_reclaimed_does_not_prevent_reloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("app.lifecycle.reloading.reclaim_memory", fail)
    async with Watched(tmp_path, *map(edition, "abc")) as watched:
        assert await watched.reload() == "1+bbbbbbbb"
        assert await watched.reload() == "1+cccccccc"


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
