"""An application with a double backend, and a client that talks to it in memory."""

import asyncio
import io
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from app.lifecycle.context import Context
from app.main import create_app
from app.settings import Settings
from app.telemetry.logs import JsonFormatter
from tests.app.double import DoubleBackend

Lines = Callable[[], list[dict[str, object]]]
Serve = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def uncollected() -> Iterator[None]:
    """Applications start here by the hundred, and leave the garbage of all tests to Python.

    Collecting it at each start, as a service does once, would take half of the time.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gc.freeze", lambda: None)
        patch.setattr("app.lifecycle.active_models.reclaim_memory", lambda: None)
        yield


@pytest.fixture
def backend() -> DoubleBackend:
    return DoubleBackend()


@pytest.fixture
def serve(backend: DoubleBackend) -> Serve:
    """Start an application with some settings and a double; gives a client."""

    @asynccontextmanager
    async def start(
        double: DoubleBackend | None = None, **settings: object
    ) -> AsyncIterator[httpx.AsyncClient]:
        app = create_app(Settings(_env_file=None, **settings), double or backend)
        async with app.router.lifespan_context(app), client_of(app) as client:
            yield client

    return start


@pytest.fixture
async def client(serve: Serve) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application with default settings."""
    async with serve() as client:
        yield client


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the monotonic clock, which the event loop and the workers read."""
    monotonic, shifts = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + sum(shifts))
    return shifts.append


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition, a minute at most."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.002)


def context_of(client: httpx.AsyncClient) -> Context:
    """The context of the application in memory that a client talks to."""
    assert isinstance(client._transport, httpx.ASGITransport)
    context: Context = client._transport.app.state.context  # type: ignore[attr-defined]
    return context


def client_of(app: Starlette) -> httpx.AsyncClient:
    """A client that talks to an application in memory."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://dragoman")


@asynccontextmanager
async def serving(app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application that has loaded its checkpoints."""
    async with app.router.lifespan_context(app), client_of(app) as client:
        async with asyncio.timeout(60):
            while (await client.get("/readyz")).status_code != 200:
                await asyncio.sleep(0.05)
        yield client


def application(*checkpoints: Path, **settings: object) -> Starlette:
    """An application that is to load these checkpoints, on the CPU."""
    return create_app(Settings(_env_file=None, checkpoint=checkpoints, device="cpu", **settings))


@pytest.fixture
def lines() -> Iterator[Lines]:
    """What was logged so far, as it would be written."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.removeHandler(handler)
    root.setLevel(level)
