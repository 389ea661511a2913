"""Deadlines, vanished clients and full queues, seen from outside."""

import asyncio
import json
import threading

import pytest

from app.main import create_app
from app.settings import Settings
from model.text.detection import LanguageDetector
from tests.app.conftest import Serve, context_of, until
from tests.app.double import DoubleBackend
from tests.app.http.test_access_records import Caller, settled

pytestmark = pytest.mark.anyio
REQUEST = {"q": "one two three", "source": "en", "target": "fr"}


@pytest.mark.parametrize(("settings", "wish"), [({}, {"timeout_ms": 30}), ({"request_timeout_ms": 30}, {})])
async def test_a_deadline_is_504(
    serve: Serve, backend: DoubleBackend, settings: dict[str, int], wish: dict[str, int]
) -> None:
    async with serve(**settings) as client:
        backend.gate.clear()
        response = await client.post("/translate", json=REQUEST | wish)
        assert (response.status_code, response.json()["code"]) == (504, "deadline_passed")
        assert 'rejected_total{reason="deadline_passed"} 1.0' in (await client.get("/metrics")).text
        backend.gate.set()


async def test_a_deadline_that_passes_before_the_text_is_read_is_504(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others' long texts keep the threads busy meanwhile."""
    gate, begun = threading.Event(), list[bool]()

    def detect(*_: object) -> list[object]:
        begun.append(True)
        gate.wait(60)
        return []

    monkeypatch.setattr(LanguageDetector, "load", lambda detector: setattr(detector, "is_loaded", True))
    async with serve() as client:
        monkeypatch.setattr(LanguageDetector, "detect", detect)
        busy = [asyncio.create_task(client.post("/detect", json={"q": "a" * 5000})) for _ in range(2)]
        await until(lambda: len(begun) == 2)
        late = await client.post("/translate", json=REQUEST | {"q": "a " * 2000, "timeout_ms": 50})
        assert (late.status_code, late.json()["code"]) == (504, "deadline_passed")
        gate.set()
        assert [response.json() for response in await asyncio.gather(*busy)] == [[], []]


async def test_a_detection_has_a_deadline_too(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    async with serve(request_timeout_ms=50) as client:
        monkeypatch.setattr(LanguageDetector, "detect", lambda *_: gate.wait(60) and [])
        texts = [client.post("/detect", json={"q": "a" * 5000}) for _ in range(5)]
        answers = await asyncio.gather(*texts)
        assert [(each.status_code, each.json()["code"]) for each in answers] == [(504, "deadline_passed")] * 5
        gate.set()


async def test_the_first_text_of_an_unknown_language_waits_for_statistics_and_others_do_not(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, loads = threading.Event(), []

    def load(detector: LanguageDetector) -> None:
        loads.append(detector)
        detector.is_loaded = gate.wait(60)

    monkeypatch.setattr(LanguageDetector, "load", load)
    unknown = REQUEST | {"source": "auto"}
    async with serve() as client:
        late = await client.post("/translate", json=unknown | {"timeout_ms": 50})
        assert (late.status_code, late.json()["code"]) == (504, "deadline_passed")
        first, second = (asyncio.create_task(client.post("/translate", json=unknown)) for _ in range(2))
        assert (await client.post("/translate", json=REQUEST)).status_code == 200
        assert {first.done(), second.done()} == {False}
        gate.set()
        assert [(await each).status_code for each in (first, second)] == [200, 200]
        num_loads = len(loads)
        assert (await client.post("/translate", json=unknown)).status_code == 200
    # One load of the request that was late, and one of the two that came together.
    assert len(loads) == num_loads == 2


async def test_a_full_queue_is_503(serve: Serve, backend: DoubleBackend) -> None:
    async with serve(max_queued_tokens=9) as client:
        backend.gate.clear()
        first = asyncio.create_task(client.post("/translate", json=REQUEST))
        await until(backend.entered.is_set)
        second = asyncio.create_task(client.post("/translate", json=REQUEST))
        await until(lambda: context_of(client).metrics.registry.get_sample_value("dragoman_queued_tokens"))
        third = await client.post("/translate", json=REQUEST)
        assert (third.status_code, third.json()["code"]) == (503, "queue_full")
        assert int(third.headers["Retry-After"]) >= 1
        backend.gate.set()
        assert [(await task).status_code for task in (first, second)] == [200, 200]
        assert 'rejected_total{reason="queue_full"} 1.0' in (await client.get("/metrics")).text


async def test_overload_is_503_before_the_body_is_read(serve: Serve, backend: DoubleBackend) -> None:
    async with serve(max_requests=5) as client:
        backend.gate.clear()
        inside = [asyncio.create_task(client.post("/translate", json=REQUEST)) for _ in range(4)]
        await until(backend.entered.is_set)
        await until(lambda: context_of(client).lifecycle.in_flight == 4)
        refused = await client.post("/translate", content=b"no JSON at all")
        assert (refused.status_code, refused.json()["code"]) == (503, "overloaded")
        assert int(refused.headers["Retry-After"]) >= 1
        assert (await client.post("/detect", json={"q": "Where is it?"})).status_code == 503
        assert (await client.get("/readyz")).status_code == 200
        backend.gate.set()
        assert [(await task).status_code for task in inside] == [200] * 4
        assert (await client.post("/translate", json=REQUEST)).status_code == 200


async def test_a_deadline_over_the_maximum_is_refused(serve: Serve) -> None:
    async with serve(max_timeout_ms=40_000) as client:
        assert (await client.post("/translate", json=REQUEST | {"timeout_ms": 40_000})).status_code == 200
        for too_long in (40_001, 3_600_001, 10**31):
            refused = await client.post("/translate", json=REQUEST | {"timeout_ms": too_long})
            assert f"MAX_TIMEOUT_MS: {too_long}, at most 40000" in refused.json()["error"]
            assert (refused.status_code, refused.json()["field"]) == (422, "timeout_ms")


async def test_a_client_that_leaves_takes_its_work_along(backend: DoubleBackend) -> None:
    app = create_app(Settings(_env_file=None), backend)
    async with app.router.lifespan_context(app):
        backend.gate.clear()
        caller = Caller(app).send(json.dumps(REQUEST).encode())
        await until(backend.entered.is_set)
        caller.leave()
        await settled(caller)
        exposition = app.state.context.metrics.exposition().decode()
        assert 'cancelled_total{stage="decoding"} 1.0' in exposition
        assert 'requests_total{endpoint="/translate",status="499"} 1.0' in exposition
        assert "dragoman_requests_in_flight 0.0" in exposition
        assert app.state.context.gate.num_requests == 0
        backend.gate.set()
