"""At any moment as many requests were accepted as were answered, refused or abandoned, or are in flight."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.types import Message

from app.http.streaming import ABANDON
from app.main import create_app
from app.settings import Settings
from app.telemetry.metrics import OUTCOMES
from tests.app.conftest import until
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio
BODY = json.dumps({"q": "one two three", "source": "en", "target": "fr"}).encode()
JSON_FIELD = (b"content-type", b"application/json")


class Caller:
    """A client that sends and leaves when it is told to."""

    def __init__(self, app: FastAPI, *fields: tuple[bytes, bytes], path: str = "/translate") -> None:
        self.statuses: list[int] = []
        self.got = asyncio.Event()
        self.state: dict[str, Any] = {}
        self._app = app
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "headers": [JSON_FIELD, *fields],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "state": self.state,
        }
        self.call = asyncio.create_task(app(scope, self._receive, self._send))

    def send(self, body: bytes, *, more: bool = False) -> "Caller":
        self._messages.put_nowait({"type": "http.request", "body": body, "more_body": more})
        return self

    def leave(self) -> None:
        self._messages.put_nowait({"type": "http.disconnect"})
        if abandon := self.state.pop(ABANDON, None):
            abandon()

    async def _receive(self) -> Message:
        return await self._messages.get()

    async def _send(self, message: Message) -> None:
        assert_balanced(self._app)
        if message["type"] == "http.response.start":
            self.statuses.append(message["status"])
        elif message.get("body"):
            self.got.set()


def request_totals(app: FastAPI) -> dict[str, int]:
    context = app.state.context
    return context.metrics.request_totals() | {"flying": context.lifecycle.in_flight}


def assert_balanced(app: FastAPI) -> None:
    counts = request_totals(app)
    assert counts["accepted"] == sum(counts[name] for name in OUTCOMES) + counts["flying"]


@pytest.fixture
async def app(backend: DoubleBackend) -> AsyncIterator[FastAPI]:
    application = create_app(Settings(_env_file=None, max_queued_tokens=400), backend)
    async with application.router.lifespan_context(application):
        yield application
    assert_balanced(application)
    assert request_totals(application)["flying"] == 0


async def settled(*callers: Caller) -> None:
    await asyncio.wait_for(asyncio.gather(*(caller.call for caller in callers), return_exceptions=True), 60)


@pytest.mark.parametrize(
    ("body", "path", "outcome"),
    [
        (BODY, "/translate", "answered"),
        (b"{", "/translate", "refused"),
        (BODY, "/nowhere", "refused"),
        (BODY.replace(b"two", b"poison"), "/translate", "answered"),
        (BODY.replace(b"{", b'{"timeout_ms": 1, '), "/translate", "answered"),
    ],
    ids=["answer", "bad body", "no such path", "fault of ours", "deadline"],
)
async def test_each_request_has_one_outcome(
    app: FastAPI, backend: DoubleBackend, body: bytes, path: str, outcome: str
) -> None:
    backend.poison, backend.seconds = "poison", 0.02
    await settled(Caller(app, path=path).send(body))
    expected = {"accepted": 1, "answered": 0, "refused": 0, "abandoned": 0, "flying": 0} | {outcome: 1}
    assert request_totals(app) == expected


async def test_a_client_that_leaves_is_abandoned(app: FastAPI, backend: DoubleBackend) -> None:
    backend.gate.clear()
    decoding = Caller(app).send(BODY)
    await until(backend.entered.is_set)
    queued, in_body = Caller(app).send(BODY), Caller(app).send(BODY[:9], more=True)
    await until(lambda: request_totals(app)["flying"] == 3)
    assert request_totals(app) == {"accepted": 3, "answered": 0, "refused": 0, "abandoned": 0, "flying": 3}
    for caller in (decoding, queued, in_body):
        caller.leave()
    await settled(decoding, queued, in_body)
    assert request_totals(app) == {"accepted": 3, "answered": 0, "refused": 0, "abandoned": 3, "flying": 0}
    backend.gate.set()


async def test_a_stream_whose_client_leaves_is_abandoned_with_status_200(
    app: FastAPI, backend: DoubleBackend
) -> None:
    backend.stops_at = 3
    caller = Caller(app, (b"accept", b"text/event-stream")).send(BODY)
    await until(caller.got.is_set)
    caller.leave()
    await settled(caller)
    backend.gate.set()
    assert caller.statuses == [200]
    assert request_totals(app) == {"accepted": 1, "answered": 0, "refused": 0, "abandoned": 1, "flying": 0}


async def test_a_refusal_by_the_connection_is_a_refusal_of_the_request_at_hand(app: FastAPI) -> None:
    caller = Caller(app).send(BODY[:9], more=True)
    await until(lambda: request_totals(app)["flying"] == 1)
    caller.state["wire_status"] = 408
    caller.leave()
    await settled(caller)
    value = app.state.context.metrics.registry.get_sample_value
    assert request_totals(app) == {"accepted": 1, "answered": 0, "refused": 1, "abandoned": 0, "flying": 0}
    assert value("dragoman_rejected_total", {"reason": "request_too_slow"}) == 1
    assert value("dragoman_requests_total", {"endpoint": "/translate", "status": "408"}) == 1


async def test_a_burst_with_all_of_it_adds_up_at_every_step(app: FastAPI, backend: DoubleBackend) -> None:
    backend.gate.clear()
    callers = [Caller(app).send(BODY if index % 5 else b"nonsense") for index in range(300)]
    await until(backend.entered.is_set)
    for caller in callers[::3]:
        caller.leave()
    backend.gate.set()
    await settled(*callers)
    counts = request_totals(app)
    told = [status for caller in callers for status in caller.statuses]
    assert counts["accepted"] == 300
    assert counts["answered"] == told.count(200)
    assert counts["refused"] == told.count(503) + told.count(422)
    assert min(counts["answered"], counts["refused"], counts["abandoned"]) > 0
