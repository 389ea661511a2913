"""An engine that makes no step: liveness fails, stacks are written down once, and it may go on."""

import asyncio
import math
import time
from collections.abc import Callable

import httpx
import pytest

from app.errors import EngineStuckError
from app.lifecycle.watchdog import Watchdog
from app.main import create_app
from app.scheduling.engine_worker import EngineWorker
from app.settings import Settings
from app.telemetry.metrics import Metrics
from tests.app.conftest import Serve, client_of
from tests.app.double import DoubleBackend

REQUEST = {"q": "canary two three", "source": "en", "target": "fr", "timeout_ms": 20_000}


class Heart:
    """A worker whose pulse the test sets."""

    name = "engine-0"

    def __init__(self, since: float | None = None) -> None:
        self.since = since

    def silent_since(self) -> float | None:
        return self.since


class Watch:
    """A watchdog, its metrics, and how often it wrote stacks down."""

    def __init__(self, *hearts: Heart, seconds: float = 30) -> None:
        self.metrics = Metrics()
        self.dumps = 0
        self.dog = Watchdog(seconds, self.metrics, self._dump)
        self.dog.watch(hearts)

    def _dump(self) -> None:
        self.dumps += 1

    @property
    def counted(self) -> float | None:
        return self.metrics.registry.get_sample_value("dragoman_engine_stuck_total")


def test_idle_and_busy_engines_are_well() -> None:
    watch = Watch(Heart(None), Heart(time.monotonic() - 29))
    watch.dog.require_progress()
    assert (watch.dumps, watch.counted) == (0, 0)


def test_a_silent_one_is_told_of_once() -> None:
    watch = Watch(Heart(None), Heart(time.monotonic() - 31))
    for _ in range(3):
        with pytest.raises(EngineStuckError):
            watch.dog.require_progress()
    assert (watch.dumps, watch.counted) == (1, 1)


def test_one_that_died_is_silent_at_once() -> None:
    watch = Watch(Heart(-math.inf))
    with pytest.raises(EngineStuckError):
        watch.dog.require_progress()


def test_it_may_go_on_and_get_stuck_again() -> None:
    heart = Heart(time.monotonic() - 31)
    watch = Watch(heart)
    watch.dog.look()
    heart.since = time.monotonic()
    watch.dog.require_progress()
    heart.since = time.monotonic() - 31
    watch.dog.look()
    assert (watch.dumps, watch.counted) == (2, 2)


def test_nobody_looks_after_those_that_ended() -> None:
    hearts = (Heart(-math.inf),)
    watch = Watch()
    watch.dog.watch(hearts)
    watch.dog.look()
    watch.dog.forget(hearts)
    watch.dog.require_progress()


def test_without_a_limit_only_the_dead_are_noticed() -> None:
    Watch(Heart(0.0), seconds=0).dog.require_progress()
    watch = Watch(Heart(0.0), Heart(-math.inf), seconds=0)
    with pytest.raises(EngineStuckError):
        watch.dog.require_progress()
    assert watch.counted == 1


def test_it_is_content_until_somebody_is_stuck() -> None:
    watch = Watch(Heart(time.monotonic() - 31))
    assert watch.dog.is_healthy
    watch.dog.look()
    assert not watch.dog.is_healthy


@pytest.mark.anyio
async def test_a_stuck_engine_fails_liveness_until_it_goes_on(
    serve: Serve, backend: DoubleBackend, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serve(watchdog_seconds=1) as client:
        backend.gate.clear()
        answer = asyncio.create_task(client.post("/translate", json=REQUEST))
        refusal = await until(client, lambda response: response.status_code == 503)
        assert refusal.json()["code"] == "engine_stuck"
        assert (await client.get("/readyz")).json()["code"] == "engine_stuck"
        backend.gate.set()
        assert (await answer).status_code == 200
        await until(client, lambda response: response.status_code == 200)
        assert "dragoman_engine_stuck_total 1.0" in (await client.get("/metrics")).text
    stacks = capfd.readouterr().err
    assert stacks.count("Current thread") == 1
    assert 'double.py", line' in stacks
    assert "canary" not in stacks


@pytest.mark.anyio
async def test_a_worker_that_died_fails_it_at_once(
    serve: Serve, backend: DoubleBackend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve() as client:
        monkeypatch.setattr(EngineWorker, "_take", _die)
        answer = asyncio.create_task(client.post("/translate", json=REQUEST | {"timeout_ms": 2000}))
        await until(client, lambda response: response.status_code == 503)
        assert (await answer).status_code == 504
        assert "dragoman_ready 0.0" in (await client.get("/metrics")).text
    assert [record.levelname for record in caplog.records if record.message == "worker died"] == ["ERROR"]


def _die(*_: object) -> None:
    raise RuntimeError("fault of a worker")


async def until(
    client: httpx.AsyncClient, is_so: Callable[[httpx.Response], bool], path: str = "/livez"
) -> httpx.Response:
    async with asyncio.timeout(10):
        while not is_so(response := await client.get(path)):
            await asyncio.sleep(0.02)
    return response


@pytest.mark.anyio
async def test_an_engine_that_is_stuck_for_ever_does_not_keep_the_process() -> None:
    backend = DoubleBackend()
    app = create_app(Settings(_env_file=None, drain_seconds=0.1), backend)
    async with app.router.lifespan_context(app), client_of(app) as client:
        backend.gate.clear()
        task = asyncio.create_task(client.post("/translate", json=REQUEST))
        async with asyncio.timeout(60):
            while not backend.entered.is_set():
                await asyncio.sleep(0.002)
        app.state.context.lifecycle.cancel_work()
        assert (await task).json()["code"] == "draining"
    ((worker,),) = app.state.context.watchdog._watched
    assert not worker.join(0)
    backend.gate.set()
