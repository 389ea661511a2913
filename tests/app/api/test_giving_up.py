"""Deadlines, vanished clients and full queues, seen from outside."""

import asyncio
import json

import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from tests.app.conftest import Serve
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio
REQUEST = {"q": "one two three", "source": "en", "target": "fr"}


async def entered(backend: DoubleBackend) -> None:
    async with asyncio.timeout(5):
        while not backend.entered.is_set():
            await asyncio.sleep(0.002)


async def test_a_deadline_is_504(client: httpx.AsyncClient, backend: DoubleBackend) -> None:
    backend.gate.clear()
    response = await client.post("/translate", json=REQUEST | {"timeout_ms": 30})
    assert (response.status_code, response.json()["code"]) == (504, "deadline_passed")
    backend.gate.set()


async def test_the_default_deadline_is_a_setting(serve: Serve, backend: DoubleBackend) -> None:
    backend.gate.clear()
    async with serve(request_timeout_ms=30) as client:
        assert (await client.post("/translate", json=REQUEST)).status_code == 504
        backend.gate.set()


async def test_a_full_queue_is_503(serve: Serve, backend: DoubleBackend) -> None:
    async with serve(max_queued_tokens=9) as client:
        backend.gate.clear()
        first = asyncio.create_task(client.post("/translate", json=REQUEST))
        await entered(backend)
        second = asyncio.create_task(client.post("/translate", json=REQUEST))
        await asyncio.sleep(0.05)
        third = await client.post("/translate", json=REQUEST)
        assert (third.status_code, third.json()["code"]) == (503, "queue_full")
        assert int(third.headers["Retry-After"]) >= 1
        backend.gate.set()
        assert [(await task).status_code for task in (first, second)] == [200, 200]
        assert 'rejected_total{reason="queue_full"} 1.0' in (await client.get("/metrics")).text


async def test_a_client_that_leaves_takes_its_work_along(backend: DoubleBackend) -> None:
    app = create_app(Settings(_env_file=None), backend)
    body = json.dumps(REQUEST).encode()
    messages: asyncio.Queue[dict[str, object]] = asyncio.Queue()
    messages.put_nowait({"type": "http.request", "body": body, "more_body": False})
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": "/translate",
        "raw_path": b"/translate",
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }

    async def send(_message: object) -> None:
        return None

    async with app.router.lifespan_context(app):
        backend.gate.clear()
        call = asyncio.create_task(app(scope, messages.get, send))
        await entered(backend)
        messages.put_nowait({"type": "http.disconnect"})
        await asyncio.wait_for(call, timeout=2)
        exposition = app.state.context.metrics.exposition().decode()
        assert 'cancelled_total{stage="decoding"} 1.0' in exposition
        assert 'requests_total{endpoint="/translate",status="499"} 1.0' in exposition
        assert "dragoman_requests_in_flight 0.0" in exposition
        backend.gate.set()
