"""An engine that makes no step: liveness fails, the stacks are logged once, and the engine may go on."""

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import nullcontext

import httpx
import pytest

from app.errors import EngineStuckError
from app.lifecycle.phase import Phase
from app.lifecycle.watchdog import Watchdog
from app.main import create_app
from app.scheduling.engine_worker import EngineWorker
from app.settings import Settings
from app.telemetry.metrics import Metrics
from model.errors import DeviceLostError
from tests.app.conftest import Serve, client_of
from tests.app.double import DoubleBackend, DoubleEngine

REQUEST = {"q": "canary two three", "source": "en", "target": "fr", "timeout_ms": 20_000}


class FakeWorker:
    """A worker whose silence the test sets."""

    name = "engine-0"

    def __init__(self, since: float | None = None) -> None:
        self.since = since

    def silent_since(self) -> float | None:
        return self.since


class Watch(Watchdog):
    """Counts how often engines were stuck."""

    def __init__(self, *workers: FakeWorker, seconds: float = 30) -> None:
        self.registry = (metrics := Metrics()).registry
        super().__init__(seconds, metrics)
        self.watch(workers)

    @property
    def count(self) -> float | None:
        return self.registry.get_sample_value("dragoman_engine_stuck_total")


@pytest.mark.parametrize(
    ("silent_seconds", "limit", "is_healthy"),
    [
        (None, 30, True),
        (29, 30, True),
        (31, 30, False),
        (math.inf, 30, False),
        (1e9, 0, True),
        (math.inf, 0, False),
    ],
)
def test_silent_and_dead_workers_are_reported_once(
    silent_seconds: float | None, limit: float, is_healthy: bool
) -> None:
    """A dead worker is silent since ever, and noticed without a limit too."""
    since = None if silent_seconds is None else time.monotonic() - silent_seconds
    watch = Watch(FakeWorker(None), FakeWorker(since), seconds=limit)
    assert watch.is_healthy
    for _ in range(3):
        with nullcontext() if is_healthy else pytest.raises(EngineStuckError):
            watch.require_progress()
    assert watch.is_healthy == is_healthy
    assert watch.count == (0 if is_healthy else 1)
    watch.watch(())
    watch.require_progress()


def test_a_worker_may_go_on_and_get_stuck_again() -> None:
    worker = FakeWorker(time.monotonic() - 31)
    watch = Watch(worker)
    watch.check()
    worker.since = time.monotonic()
    watch.require_progress()
    worker.since = time.monotonic() - 31
    watch.check()
    assert watch.count == 2


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
async def test_a_dead_worker_fails_liveness_at_once(
    serve: Serve,
    pass_time: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serve() as client:
        monkeypatch.setattr(EngineWorker, "_take", _die)
        answer = asyncio.create_task(client.post("/translate", json=REQUEST))
        await until(client, lambda response: response.status_code == 503)
        pass_time(60)
        assert (await answer).status_code == 504
        assert "dragoman_ready 0.0" in (await client.get("/metrics")).text
    assert [record.levelname for record in caplog.records if record.message == "worker died"] == ["ERROR"]


@pytest.mark.anyio
async def test_a_lost_device_fails_liveness_and_ends_the_process(
    backend: DoubleBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: object, **__: object) -> None:
        raise DeviceLostError("cuda answers no more")

    app = create_app(Settings(_env_file=None), backend)
    async with app.router.lifespan_context(app), client_of(app) as client:
        monkeypatch.setattr(DoubleEngine, "step", lose)
        answer = await client.post("/translate", json=REQUEST)
        assert (answer.status_code, answer.json()["code"]) == (503, "draining")
        await until(client, lambda response: response.status_code == 503)
        lifecycle = app.state.context.lifecycle
        assert (lifecycle.phase, str(lifecycle.failure)) == (Phase.FAILED, "cuda answers no more")


def _die(*_: object) -> None:
    raise RuntimeError("fault of a worker")


async def until(
    client: httpx.AsyncClient, is_so: Callable[[httpx.Response], bool], path: str = "/livez"
) -> httpx.Response:
    async with asyncio.timeout(60):
        while not is_so(response := await client.get(path)):
            await asyncio.sleep(0.02)
    return response
