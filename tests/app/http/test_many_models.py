"""Models that are loaded by their first request, over HTTP: which requests wait, and what clients see."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.applications import Starlette

from app.backend import LoadedModel, Model
from app.main import create_app
from app.settings import Settings
from tests.app.conftest import client_of, until
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio
REQUEST = {"q": "eins zwei", "source": "de", "target": "en"}


class SlowBackend(DoubleBackend):
    """Three models of 100 bytes, whose loads wait while the gate of loading is closed.

    Attributes:
        loading: The gate.
        loads: Names in the order of their loads.
    """

    def __init__(self) -> None:
        super().__init__(("de-en", (("de", "en"),)), ("en-fr", (("en", "fr"),)), ("fr-es", (("fr", "es"),)))
        self.loading = threading.Event()
        self.loading.set()
        self.loads: list[str] = []

    def load(self, model: Model) -> LoadedModel:
        self.loads.append(model.card.name)
        assert self.loading.wait(timeout=30)
        return super().load(model)

    def close(self) -> None:
        """Engines of the double stay open."""


@pytest.fixture
def backend() -> SlowBackend:
    return SlowBackend()


@asynccontextmanager
async def serving(
    backend: SlowBackend, **settings: object
) -> AsyncIterator[tuple[Starlette, httpx.AsyncClient]]:
    values = {"pinned_models": "none"} | settings
    app = create_app(Settings(_env_file=None, **values), backend)
    async with app.router.lifespan_context(app), client_of(app) as client:
        yield app, client
        backend.loading.set()


async def loaded(client: httpx.AsyncClient) -> list[str]:
    return [model["name"] for model in (await client.get("/models")).json() if model["loaded"]]


async def test_the_first_request_waits_and_the_others_do_not(backend: SlowBackend) -> None:
    async with serving(backend, pinned_models="en-fr") as (_, client):
        assert await loaded(client) == ["en-fr"]
        backend.loads.clear()
        backend.loading.clear()
        first = [asyncio.create_task(client.post("/translate", json=REQUEST)) for _ in range(5)]
        await until(lambda: backend.loads)
        other = await client.post("/translate", json=REQUEST | {"source": "en", "target": "fr"})
        assert (other.status_code, [task.done() for task in first]) == (200, [False] * 5)
        backend.loading.set()
        answers = await asyncio.gather(*first)
        assert {answer.json()["translatedText"] for answer in answers} == {"EINS ZWEI"}
        assert "load;dur=" in answers[0].headers["Server-Timing"]
        assert "load;dur=" not in other.headers["Server-Timing"]
        assert backend.loads == ["de-en"]
        assert await loaded(client) == ["de-en", "en-fr"]
        metrics = (await client.get("/metrics")).text
        assert 'dragoman_model_memory_bytes{name="de-en"} 100.0' in metrics
        assert "dragoman_models_loaded 2.0" in metrics
        assert "dragoman_models_listed 3.0" in metrics
        assert metrics.count("dragoman_model_info{") == 2, "of those that are loaded"


async def test_a_request_waits_no_longer_than_its_deadline(backend: SlowBackend) -> None:
    async with serving(backend) as (_, client):
        backend.loading.clear()
        response = await client.post("/translate", json=REQUEST | {"timeout_ms": 20})
        assert (response.status_code, response.json()["code"]) == (504, "deadline_passed")
        backend.loading.set()
        assert (await client.post("/translate", json=REQUEST)).status_code == 200
        assert backend.loads == ["de-en"]


async def test_a_stream_waits_too(backend: SlowBackend) -> None:
    async with serving(backend) as (_, client):
        response = await client.post("/translate", json=REQUEST, headers={"Accept": "text/event-stream"})
        assert "EINS ZWEI" in response.text.rpartition("event: done")[2]


async def test_blank_texts_and_texts_in_the_target_language_load_nothing(backend: SlowBackend) -> None:
    async with serving(backend) as (_, client):
        for fields in ({"q": [" \n", ""]}, {"source": "en"}):
            response = await client.post("/translate", json=REQUEST | fields)
            assert response.status_code == 200
        assert backend.loads == []


async def test_a_pivot_needs_memory_for_one_model_at_a_time(backend: SlowBackend) -> None:
    async with serving(backend, max_model_bytes=100) as (app, client):
        calls = [client.post("/translate", json=REQUEST | {"target": "fr"}) for _ in range(20)]
        answers = await asyncio.gather(*calls)
        assert {answer.status_code for answer in answers} == {200}
        assert {answer.json()["pivot"] for answer in answers} == {"en"}
        tokens = await client.post("/translate", json=REQUEST | {"include": ["tokens"]})
        assert tokens.json()["details"][0]["tokens"][0]["target"] == ["EINS", "ZWEI"]
        assert "dragoman_models_loaded 1.0" in (await client.get("/metrics")).text
        assert app.state.context.lifecycle.in_flight == 0


async def test_texts_whose_models_never_fit_together_are_refused(backend: SlowBackend) -> None:
    texts = {"q": ["Wo ist der Bahnhof?", "Où est la gare, s'il vous plaît ?"], "source": "auto"}
    pairs = (("de-es", (("de", "es"),)), ("fr-es", (("fr", "es"),)))
    backend._models = DoubleBackend(*pairs)._models
    async with serving(backend, max_model_bytes=100) as (_, client):
        response = await client.post("/translate", json=texts | {"target": "es"})
        assert (response.status_code, response.json()["code"]) == (413, "text_too_long")
        assert "MAX_MODEL_BYTES" in response.json()["error"]


async def test_a_client_that_leaves_amid_decoding_does_not_hold_memory(backend: SlowBackend) -> None:
    async with serving(backend, max_model_bytes=100, request_timeout_ms=5000) as (_, client):
        backend.gate.clear()
        left = asyncio.create_task(client.post("/translate", json=REQUEST))
        await until(backend.entered.is_set)
        left.cancel()
        following = asyncio.create_task(
            client.post("/translate", json=REQUEST | {"source": "en", "target": "fr"})
        )
        await asyncio.sleep(0.02)
        assert backend.loads == ["de-en"], "the engine of the first model is still in its step"
        backend.gate.set()
        assert (await following).status_code == 200


async def test_a_request_that_waits_for_its_model_is_answered_in_a_shutdown(backend: SlowBackend) -> None:
    async with serving(backend) as (app, client):
        backend.loading.clear()
        early = asyncio.create_task(client.post("/translate", json=REQUEST))
        await until(lambda: backend.loads)
        app.state.context.lifecycle.drain()
        late = await client.post("/translate", json=REQUEST)
        assert (late.status_code, late.json()["code"]) == (503, "draining")
        backend.loading.set()
        assert (await early).status_code == 200


async def test_a_forced_end_refuses_what_waits_for_memory(backend: SlowBackend) -> None:
    async with serving(backend, max_model_bytes=100) as (app, client):
        backend.loading.clear()
        loading = asyncio.create_task(client.post("/translate", json=REQUEST))
        await until(lambda: backend.loads)
        waiting = asyncio.create_task(
            client.post("/translate", json=REQUEST | {"source": "en", "target": "fr"})
        )
        await asyncio.sleep(0.02)
        app.state.context.lifecycle.cancel_work()
        assert json.loads((await waiting).content)["code"] == "draining"
        backend.loading.set()
        await loading
