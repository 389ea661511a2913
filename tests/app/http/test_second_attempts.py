"""What looks broken is translated a second time, and told."""

import asyncio
import json
from collections.abc import Callable

import httpx
import pytest

from tests.app.conftest import Serve, until
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio
LOOP = {"kind": "loop", "retried": False, "kept": False}
STUCK = "we go round. All is well"
CIRCLES = "WE GO ROUND. ROUND. ROUND. ROUND. ROUND. ROUND. ALL IS WELL"


@pytest.fixture
def backend() -> DoubleBackend:
    double = DoubleBackend()
    double.stuck, double.hopeless = "round.", "evermore."
    return double


async def translate(client: httpx.AsyncClient, **fields: object) -> httpx.Response:
    defaults = {"source": "en", "target": "fr", "include": ["degeneration"]}
    return await client.post("/translate", json=defaults | fields)


async def test_the_second_translation_is_given_where_nothing_is_wrong_with_it(
    client: httpx.AsyncClient, backend: DoubleBackend
) -> None:
    body = (await translate(client, q=STUCK)).json()
    assert body["translatedText"] == "WE GO ROUND. ALL IS WELL"
    assert body["details"] == [
        {"finished": [True, True], "degenerate": [LOOP | {"retried": True, "kept": True}, None]}
    ]
    second = backend.admitted[2].options
    assert (second.strategy, second.beam_size, second.no_repeat_ngram_size) == ("beam", 4, 3)
    assert second.repetition_penalty == 1.1
    assert len(backend.admitted) == 3


async def test_the_second_attempt_does_not_depend_on_what_is_included(
    client: httpx.AsyncClient,
) -> None:
    body = (await translate(client, q=STUCK, include=[])).json()
    assert body["translatedText"] == "WE GO ROUND. ALL IS WELL"
    assert "details" not in body
    body = (await translate(client, q=STUCK, include=["tokens", "alignment"], alternatives=1)).json()
    assert body["translatedText"] == "WE GO ROUND. ALL IS WELL"
    assert body["alternatives"] == ["WE WE GO ROUND. ALL ALL IS WELL"]
    (details,) = body["details"]
    assert details["degenerate"][0]["kept"] is True
    assert details["tokens"][0]["target"] == ["WE", "GO", "ROUND."]
    assert len(details["alignment"][0]) == 3


@pytest.mark.parametrize(
    ("settings", "wish"),
    [({"retry_degenerate": "off"}, {}), ({}, {"decoding": {"strategy": "greedy"}})],
    ids=["turned off", "a request that chooses a search"],
)
async def test_without_second_attempts_degeneration_is_only_reported(
    serve: Serve, backend: DoubleBackend, settings: dict[str, str], wish: dict[str, object]
) -> None:
    async with serve(**settings) as client:
        body = (await translate(client, q=STUCK, **wish)).json()
    assert body["translatedText"] == CIRCLES
    assert body["details"][0]["degenerate"] == [LOOP, None]
    assert len(backend.admitted) == 2


async def test_a_streamed_translation_is_not_replaced(
    client: httpx.AsyncClient, backend: DoubleBackend
) -> None:
    request = {"q": STUCK, "source": "en", "target": "fr", "include": ["degeneration"]}
    streamed = await client.post("/translate", json=request, headers={"Accept": "text/event-stream"})
    name, data = streamed.text.split("\n\n")[-2].split("\n")
    body = json.loads(data.removeprefix("data: "))
    assert (name, body["translatedText"]) == ("event: done", CIRCLES)
    assert body["details"][0]["degenerate"] == [LOOP, None]
    assert len(backend.admitted) == 2


async def test_before_a_pivot_there_is_a_second_attempt_even_for_streams(serve: Serve) -> None:
    double = DoubleBackend(("de-en", (("de", "en"),)), ("en-fr", (("en", "fr"),)))
    double.stuck = "rund"  # the second checkpoint reads it with a capital
    request = {"q": "rund geht es.", "source": "de", "target": "fr", "include": ["degeneration"]}
    async with serve(double) as client:
        plain = (await client.post("/translate", json=request)).json()
        streamed = await client.post("/translate", json=request, headers={"Accept": "text/event-stream"})
        metrics = (await client.get("/metrics")).text
    assert plain["translatedText"] == "RUND GEHT ES."
    assert plain["details"][0]["degenerate"] == [None]
    assert json.loads(streamed.text.split("\n\n")[-2].partition("data: ")[2]) == plain
    assert 'dragoman_degenerate_retries_total{outcome="kept"} 2.0' in metrics


async def test_without_time_for_a_second_translation_the_first_one_stands(
    client: httpx.AsyncClient, backend: DoubleBackend, pass_time: Callable[[float], None]
) -> None:
    backend.is_slow_to_repeat = True
    call = asyncio.create_task(translate(client, q=STUCK))
    await until(backend.held.is_set)
    pass_time(20)
    response = await call
    backend.gate.set()
    assert (response.status_code, response.json()["translatedText"]) == (200, CIRCLES)
    assert response.json()["details"][0]["degenerate"] == [LOOP, None]
    metrics = (await client.get("/metrics")).text
    assert 'dragoman_degenerate_retries_total{outcome="impossible"} 1.0' in metrics


async def test_a_client_that_leaves_during_the_second_attempt_frees_the_engine(
    client: httpx.AsyncClient, backend: DoubleBackend
) -> None:
    backend.is_slow_to_repeat = True
    call = asyncio.create_task(translate(client, q=STUCK))
    await until(lambda: len(backend.admitted) == 3)
    call.cancel()
    await asyncio.wait((call,))
    backend.gate.set()
    await until(lambda: backend.cancelled)
    assert call.cancelled()
    assert backend.cancelled == backend.admitted[2:]


async def test_without_room_for_a_second_translation_the_first_one_stands(serve: Serve) -> None:
    double = DoubleBackend()
    double.stuck = "round."
    async with serve(double, max_queued_tokens=12) as client:
        response = await translate(client, q="we go round.")
        assert (response.status_code, response.json()["details"][0]["degenerate"]) == (200, [LOOP])


async def test_a_second_translation_that_fails_leaves_the_first_one(serve: Serve) -> None:
    double = DoubleBackend()
    double.stuck, double.breaks_when_retried = "round.", True
    async with serve(double) as client:
        response = await translate(client, q=["we go round.", "all is well"])
    assert response.status_code == 200
    assert response.json()["translatedText"][1] == "ALL IS WELL"
    assert [each["degenerate"] for each in response.json()["details"]] == [[LOOP], [None]]


async def test_what_was_broken_is_counted_once_and_so_are_second_attempts(client: httpx.AsyncClient) -> None:
    await translate(client, q=[STUCK, "we go for evermore.", "all is well"])
    await translate(client, q=STUCK, decoding={"beam_size": 3})
    metrics = (await client.get("/metrics")).text
    for sample in (
        'dragoman_degenerate_output_total{kind="loop"} 3.0',
        'dragoman_degenerate_output_total{kind="copy"} 0.0',
        'dragoman_degenerate_retries_total{outcome="kept"} 1.0',
        'dragoman_degenerate_retries_total{outcome="discarded"} 1.0',
        'dragoman_degenerate_retries_total{outcome="impossible"} 0.0',
    ):
        assert sample in metrics
