"""Another set of checkpoints takes the place of the one that is served; nobody notices but by the version."""

import asyncio
import dataclasses
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from app.backend import Backend
from app.background import in_background
from app.lifecycle.reloading import list_files
from app.main import create_app
from app.settings import Settings
from model.checkpoint.self_test import GoldenSentence
from model.errors import CheckpointError, ConfigError
from tests.app.conftest import Lines, client_of
from tests.app.double import DoubleBackend, DoubleEngine

pytestmark = pytest.mark.anyio
REQUEST = {"q": "one two three", "source": "en", "target": "fr"}


def edition(letter: str) -> DoubleBackend:
    """A backend whose weights differ by a letter."""
    backend = DoubleBackend()
    backend._models = [dataclasses.replace(model, checksum=letter * 64) for model in backend.models()]
    return backend


class Shelf:
    """What loading gives, in order; what is no backend is raised.

    Attributes:
        lenders: The backend that was served at each loading.
        closed: Backends that were let go of, in order.
    """

    def __init__(self, *editions: DoubleBackend | Exception) -> None:
        self.editions = list(editions)
        self.lenders: list[Backend | None] = []
        self.closed: list[Backend] = []

    def load(self, lender: Backend | None) -> Backend:
        self.lenders.append(lender)
        found = self.editions.pop(0)
        if isinstance(found, Exception):
            raise found
        close = found.close
        found.close = lambda: (self.closed.append(found), close())[1]  # type: ignore[method-assign]
        return found


@asynccontextmanager
async def serving(shelf: Shelf, **settings: object) -> AsyncIterator[tuple[Starlette, httpx.AsyncClient]]:
    """An application that has loaded what comes first."""
    values = {"watch_seconds": 0} | settings
    app = create_app(Settings(_env_file=None, **values), load=shelf.load)
    async with app.router.lifespan_context(app), client_of(app) as client:
        async with asyncio.timeout(10):
            while (await client.get("/readyz")).status_code != 200:
                await asyncio.sleep(0.005)
        yield app, client


def ask(app: Starlette) -> None:
    app.state.context.lifecycle.reload_requested.set()


async def reloads(app: Starlette, outcome: str, count: int = 1) -> None:
    """Wait until there were as many."""
    series = {"outcome": outcome}
    registry = app.state.context.metrics.registry
    async with asyncio.timeout(10):
        while registry.get_sample_value("dragoman_reloads_total", series) != count:
            await asyncio.sleep(0.005)


async def closed(shelf: Shelf, *backends: Backend) -> None:
    """Wait until exactly these were let go of."""
    async with asyncio.timeout(10):
        while shelf.closed != list(backends):
            await asyncio.sleep(0.005)


async def version(client: httpx.AsyncClient) -> str:
    response = await client.post("/translate", json=REQUEST)
    assert response.status_code == 200
    return str(response.json()["model_version"])


async def test_what_is_asked_for_takes_the_place_of_what_was(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    old, new = edition("a"), edition("b")
    shelf = Shelf(old, new)
    async with serving(shelf) as (app, client):
        assert await version(client) == "1+aaaaaaaa"
        ask(app)
        await reloads(app, "replaced")
        assert await version(client) == "1+bbbbbbbb"
        assert shelf.lenders == [None, old]
        await closed(shelf, old)
        metrics = (await client.get("/metrics")).text
        assert f'checksum="{"b" * 64}"' in metrics
        assert "a" * 64 not in metrics
        assert "dragoman_model_load_seconds 0.5" in metrics
    assert shelf.closed == [old, new]


async def test_whoever_came_before_is_answered_by_what_was_served_then() -> None:
    old, new = edition("a"), edition("b")
    shelf = Shelf(old, new)
    async with serving(shelf) as (app, client):
        old.gate.clear()
        early = asyncio.create_task(client.post("/translate", json=REQUEST))
        async with asyncio.timeout(10):
            while not old.entered.is_set():
                await asyncio.sleep(0.002)
        ask(app)
        await reloads(app, "replaced")
        assert await version(client) == "1+bbbbbbbb"
        assert shelf.closed == []
        old.gate.set()
        response = await early
        assert (response.status_code, response.json()["model_version"]) == (200, "1+aaaaaaaa")
        await closed(shelf, old)


async def client_version(client: httpx.AsyncClient) -> str:
    """What /models says, without any decoding."""
    (model,) = (await client.get("/models")).json()
    return str(model["version"])


async def test_no_request_fails_while_versions_change() -> None:
    editions = [edition(letter) for letter in "abcdef"]
    for each in editions:
        each.seconds = 0.002
    async with serving(Shelf(*editions)) as (app, client):
        found: list[str] = []
        is_over = asyncio.Event()

        async def go_on() -> None:
            while not is_over.is_set():
                found.append(await version(client))

        async def until_found(version: str) -> None:
            async with asyncio.timeout(10):
                while version not in found:
                    await asyncio.sleep(0.002)

        clients = [asyncio.create_task(go_on()) for _ in range(8)]
        await until_found("1+aaaaaaaa")
        for count in range(1, len(editions)):
            ask(app)
            await reloads(app, "replaced", count)
        await until_found("1+ffffffff")
        is_over.set()
        await asyncio.gather(*clients)
        assert app.state.context.lifecycle.in_flight == 0


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (CheckpointError("checkpoint x is corrupt"), "checkpoint x is corrupt"),
        (ConfigError("shortlist", "off", "on"), "`shortlist` must be off, but is 'on' instead"),
        (RuntimeError("secret"), "RuntimeError"),
    ],
)
async def test_what_cannot_be_loaded_leaves_what_was(
    failure: Exception, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    old, newer = edition("a"), edition("c")
    async with serving(Shelf(old, failure, newer)) as (app, client):
        ask(app)
        await reloads(app, "failed")
        assert await version(client) == "1+aaaaaaaa"
        (line,) = [record for record in caplog.records if record.message.startswith("reload failed")]
        assert (vars(line).get("reason") or vars(line)["fault"]) == reason
        ask(app)
        await reloads(app, "replaced")
        assert await version(client) == "1+cccccccc"


async def test_what_cannot_translate_is_closed_and_leaves_what_was(monkeypatch: pytest.MonkeyPatch) -> None:
    old, broken = edition("a"), edition("b")
    shelf = Shelf(old, broken)
    async with serving(shelf) as (app, client):
        monkeypatch.setattr(broken, "engine", lambda *_: _Broken(broken))
        ask(app)
        await reloads(app, "failed")
        assert shelf.closed == [broken]
        assert await version(client) == "1+aaaaaaaa"


class _Broken(DoubleEngine):
    def step(self, *_: object, **__: object) -> object:  # type: ignore[override]
        raise CheckpointError("not a number")


async def test_what_cannot_be_closed_is_in_nobodys_way(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    old, new, newer = map(edition, "abc")
    async with serving(Shelf(old, new, newer)) as (app, client):
        monkeypatch.setattr(old, "close", _fail)
        ask(app)
        await reloads(app, "replaced")
        ask(app)
        await reloads(app, "replaced", 2)
        assert await version(client) == "1+cccccccc"
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "what was served before could not be closed"
    ]


def _fail() -> None:
    raise OSError("the device is gone")


async def test_what_is_the_same_changes_nothing() -> None:
    old, same = edition("a"), edition("a")
    shelf = Shelf(old, same)
    async with serving(shelf) as (app, client):
        service = app.state.context.service
        ask(app)
        await reloads(app, "unchanged")
        assert app.state.context.service is service
        assert shelf.closed == [same]
        assert await version(client) == "1+aaaaaaaa"


async def test_new_golden_sentences_are_verified_although_the_weights_are_the_same() -> None:
    editions = [edition("a") for _ in range(4)]
    for each, translation in zip(editions[1:], ("ONE TWO", "ONE TWO", "quite another"), strict=True):
        golden = GoldenSentence(
            source_language="en", target_language="fr", source="one two", translation=translation
        )
        each._models = [dataclasses.replace(model, golden=(golden,)) for model in each.models()]
    shelf = Shelf(*editions)
    async with serving(shelf) as (app, client):
        for outcome in ("replaced", "unchanged", "failed"):
            ask(app)
            await reloads(app, outcome)
        assert await version(client) == "1+aaaaaaaa"


async def test_asking_while_it_loads_or_drains_is_harmless() -> None:
    shelf = Shelf(edition("a"), edition("a"), edition("b"))
    app = create_app(Settings(_env_file=None, watch_seconds=0), load=shelf.load)
    async with app.router.lifespan_context(app), client_of(app) as client:
        ask(app)
        await reloads(app, "unchanged")
        app.state.context.lifecycle.drain()
        ask(app)
        await asyncio.sleep(0.05)
        assert (await client.get("/readyz")).json()["code"] == "draining"
    assert len(shelf.lenders) == 2


async def test_a_loading_that_failed_ends_the_process_and_is_not_tried_again() -> None:
    shelf = Shelf(CheckpointError("no"))
    app = create_app(Settings(_env_file=None, watch_seconds=0.01), load=shelf.load)
    async with app.router.lifespan_context(app):
        async with asyncio.timeout(10):
            while app.state.context.lifecycle.failure is None:
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
    assert len(shelf.lenders) == 1


# A watched folder


def put(folder: Path, *names: str, content: str = "{}") -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(content)


async def test_changed_files_are_loaded_once_they_rest(tmp_path: Path) -> None:
    put(tmp_path / "one", "config.json", "provenance.json")
    shelf = Shelf(edition("a"), edition("b"), CheckpointError("half of it"), edition("c"))
    async with serving(shelf, checkpoint=(tmp_path,), watch_seconds=0.05) as (app, client):
        put(tmp_path / "two", "config.json")
        await reloads(app, "replaced", 1)
        assert await client_version(client) == "1+bbbbbbbb"
        put(tmp_path / "two", "model.safetensors", content="half")
        await reloads(app, "failed")
        await asyncio.sleep(0.3)
        assert len(shelf.lenders) == 3  # not tried again as long as nothing changes
        put(tmp_path / "two", "model.safetensors", content="the whole of it")
        await reloads(app, "replaced", 2)
        assert await client_version(client) == "1+cccccccc"


async def test_files_on_their_way_are_waited_for(tmp_path: Path) -> None:
    put(tmp_path, "config.json", "provenance.json")
    shelf = Shelf(edition("a"), edition("b"))
    async with serving(shelf, checkpoint=(tmp_path,), watch_seconds=0.4) as (app, _):
        for size in range(20):
            put(tmp_path, "model.safetensors", content="x" * size)
            await asyncio.sleep(0.05)
            assert len(shelf.lenders) == 1
        await reloads(app, "replaced")


class Threads:
    """Stands in for the system's: gives none as long as there is to be none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.are_short = False
        self.refusals = 0
        monkeypatch.setattr("app.lifecycle.reloading.in_background", self._in_background)

    async def _in_background(self, work: Callable[[], object]) -> object:
        if self.are_short:
            self.refusals += 1
            raise RuntimeError("can't start new thread")
        return await in_background(work)


async def test_a_look_for_which_there_is_no_thread_is_told_and_not_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    put(tmp_path, "config.json")
    threads, shelf = Threads(monkeypatch), Shelf(*map(edition, "abc"))
    async with serving(shelf, checkpoint=(tmp_path,), watch_seconds=0.05) as (app, client):
        threads.are_short = True
        ask(app)
        async with asyncio.timeout(10):
            while threads.refusals < 2:
                await asyncio.sleep(0.005)
        assert len(shelf.lenders) == 1
        threads.are_short = False
        await reloads(app, "replaced")  # what was asked for then is not forgotten
        put(tmp_path, "model.safetensors")
        await reloads(app, "replaced", 2)
        assert await client_version(client) == "1+cccccccc"
    faults = {(line["event"], line["fault"]) for line in lines() if line["level"] == "error"}
    assert faults == {("looking for changed checkpoints failed", "RuntimeError")}


async def test_without_a_thread_for_the_first_look_it_serves_and_loads_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "config.json")
    threads, shelf = Threads(monkeypatch), Shelf(*map(edition, "ab"))
    threads.are_short = True
    async with serving(shelf, checkpoint=(tmp_path,), watch_seconds=0.05) as (app, client):
        assert await client_version(client) == "1+aaaaaaaa"
        threads.are_short = False
        await reloads(app, "replaced")


async def test_memory_that_nobody_can_reclaim_is_in_nobodys_way(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads(monkeypatch)
    async with serving(Shelf(*map(edition, "abc"))) as (app, client):
        threads.are_short = True
        for count in (1, 2):
            ask(app)
            await reloads(app, "replaced", count)
        assert await version(client) == "1+cccccccc"


def test_the_listing_sees_new_changed_exchanged_and_missing_files(tmp_path: Path) -> None:
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
