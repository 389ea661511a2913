"""A front sends requests to replicas, and again where a replica ends before it has answered."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Message, Scope

from app.cluster.front import create_front
from app.cluster.messages import ReplicaLostError, answer_messages
from app.main import create_app
from app.settings import Settings
from tests.app.conftest import client_of, serving, until
from tests.app.double import DoubleBackend
from tests.app.http.test_streaming import EVENTS, events_of

pytestmark = pytest.mark.anyio
REQUEST = {"q": "one two", "source": "en", "target": "fr"}


class InMemoryReplicas:
    """Replicas that share one application.

    Attributes:
        losses: After how many messages the next attempts end; those after them are answered.
        scopes: The requests that came, in order.
        models: The models that they named.
    """

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.losses: list[int] = []
        self.scopes: list[Scope] = []
        self.models: list[str] = []

    async def respond(self, scope: Scope, body: bytes, model_key: str) -> AsyncGenerator[Message, None]:
        self.scopes.append(scope)
        self.models.append(model_key)
        left = self.losses.pop(0) if self.losses else None
        async with aclosing(answer_messages(self.app, scope, body)) as messages:
            async for message in messages:
                if left == 0:
                    raise ReplicaLostError
                left = None if left is None else left - 1
                yield message


class InMemoryCluster:
    """A cluster of two applications."""

    def __init__(self, translation: FastAPI, files: FastAPI) -> None:
        self.translation = InMemoryReplicas(translation)
        self.files = InMemoryReplicas(files)
        self.has_left = False

    async def expositions(self) -> dict[str, str]:
        return {"r1": "# TYPE dragoman_accepted_total counter\ndragoman_accepted_total 3.0\n"}

    def leave(self) -> None:
        self.has_left = True


Front = tuple[httpx.AsyncClient, InMemoryCluster]


@asynccontextmanager
async def fronted(**settings: object) -> AsyncIterator[Front]:
    chosen = Settings(_env_file=None, **settings)
    apps = [create_app(chosen, DoubleBackend()) for _ in range(2)]
    cluster = InMemoryCluster(*apps)
    async with (
        apps[0].router.lifespan_context(apps[0]),
        apps[1].router.lifespan_context(apps[1]),
        serving(create_front(chosen, lambda: cluster)) as client,
    ):
        yield client, cluster
    assert cluster.has_left


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    async with fronted() as pair:
        yield pair


async def test_the_answer_is_that_of_a_service(front: Front) -> None:
    client, cluster = front
    async with client_of(cluster.translation.app) as direct:
        headers = {"X-Request-ID": "same"}
        for path, fields in (
            ("/translate", REQUEST),
            ("/translate", {"sorce": "en"}),
            ("/detect", {"q": "a"}),
        ):
            through = await client.post(path, json=fields, headers=headers)
            plain = await direct.post(path, json=fields, headers=headers)
            assert (through.status_code, through.json()) == (plain.status_code, plain.json())
        for path in ("/languages", "/models", "/openapi.json", "/", "/nothing"):
            assert (await client.get(path)).status_code == (await direct.get(path)).status_code


async def test_header_fields_come_once_with_the_clients_id(front: Front) -> None:
    client, cluster = front
    answered = await client.post("/translate", json=REQUEST, headers={"X-Request-ID": "mine"})
    names = [name for name, _ in answered.headers.multi_items()]
    assert len(set(names)) == len(names)
    assert answered.headers["x-request-id"] == "mine"
    assert (b"x-request-id", b"mine") in cluster.translation.scopes[0]["headers"]


@pytest.mark.parametrize("losses", [[0], [0, 1], [1, 0, 1]])
async def test_a_request_whose_replica_ends_is_answered_by_another(front: Front, losses: list[int]) -> None:
    client, cluster = front
    attempts = len(losses) + 1
    cluster.translation.losses = losses
    answered = await client.post("/translate", json=REQUEST)
    assert answered.status_code == 200
    assert answered.json()["translatedText"] == "ONE TWO"
    assert len(cluster.translation.scopes) == attempts


async def test_the_time_before_a_repetition_counts_for_the_deadline(front: Front) -> None:
    client, cluster = front
    cluster.translation.losses = [0]
    await client.post("/translate", json=REQUEST)
    first, second = (scope["state"]["waited"] for scope in cluster.translation.scopes)
    assert second > first >= 0


async def test_a_deadline_that_passed_before_the_repetition_is_over() -> None:
    async with fronted() as (client, cluster):
        cluster.translation.losses = [0]
        answered = await client.post("/translate", json=REQUEST | {"timeout_ms": 1})
        assert answered.json()["code"] == "deadline_passed"
        assert len(cluster.translation.scopes) == 2


async def test_without_replicas_a_request_is_refused_after_its_time() -> None:
    async with fronted(request_timeout_ms=1) as (client, cluster):
        cluster.translation.losses = [0] * 1000
        answered = await client.post("/translate", json=REQUEST)
        assert answered.status_code == 503
        assert answered.json()["code"] == "loading"
        assert "retry-after" in answered.headers


async def test_a_stream_that_has_begun_ends_with_an_error(front: Front) -> None:
    client, cluster = front
    cluster.translation.losses = [2]
    answered = await client.post("/translate", json=REQUEST | {"q": "one two three"}, headers=EVENTS)
    assert [name for name, _ in events_of(answered.text)][-1] == "error"
    assert len(cluster.translation.scopes) == 1


async def test_files_go_to_the_one_replica_that_keeps_them(front: Front) -> None:
    client, cluster = front
    file = {"file": ("a.txt", b"one two\n")}
    answered = await client.post("/translate_file", files=file, data={"source": "en", "target": "fr"})
    kept = await client.get(answered.json()["translatedFileUrl"])
    assert kept.text == "ONE TWO\n"
    assert [scope["path"].split("/")[1] for scope in cluster.files.scopes] == [
        "translate_file",
        "download_file",
    ]
    assert not cluster.translation.scopes


async def test_a_body_over_the_limit_is_refused_by_the_front() -> None:
    async with fronted(max_body_bytes=2048) as (client, cluster):
        answered = await client.post("/translate", json=REQUEST | {"q": "a" * 3000})
        assert answered.json()["code"] == "body_too_large"
        assert "MAX_BODY_BYTES" in answered.json()["error"]
        assert not cluster.translation.scopes


@pytest.mark.parametrize(("settings", "model"), [({}, ""), ({"max_model_bytes": 10**9}, "en-fr")])
async def test_models_are_named_only_where_memory_is_limited(settings: dict[str, object], model: str) -> None:
    async with fronted(**settings) as (client, cluster):
        await client.post("/translate", json=REQUEST)
        await client.post("/translate", content=b"\xff{")
        assert cluster.translation.models == [model, ""]


async def test_metrics_are_those_of_the_front_and_of_every_replica(front: Front) -> None:
    client, _ = front
    await client.post("/translate", json=REQUEST)
    lines = (await client.get("/metrics")).text.splitlines()
    assert 'dragoman_accepted_total{replica="r1"} 3.0' in lines
    assert sum(line.startswith("# TYPE dragoman_accepted") for line in lines) == 1
    assert any(line.startswith('dragoman_accepted_total{replica="front-') for line in lines)


async def test_a_front_without_a_cluster_ends() -> None:
    def refuse() -> InMemoryCluster:
        raise ConnectionError("no cluster")

    app = create_front(Settings(_env_file=None), refuse)
    async with app.router.lifespan_context(app), client_of(app) as client:
        lifecycle = app.state.context.lifecycle
        await until(lambda: lifecycle.failure is not None)
        assert isinstance(lifecycle.failure, ConnectionError)
        assert (await client.get("/readyz")).status_code == 503
