"""POST /translate with `Accept: text/event-stream`."""

import asyncio
import json
from collections.abc import Callable
from http.client import HTTPConnection
from itertools import pairwise

import httpx
import pytest

from app.http import streaming
from app.http.streaming import prefers_events
from tests.app.conftest import Serve
from tests.app.double import DoubleBackend, take_steps
from tests.app.remote import JSON, body_of, running, wait_for, wait_until_in_flight
from tests.model.native_library import needs_native

pytestmark = pytest.mark.anyio
EVENTS = {"Accept": "text/event-stream"}
REQUEST = {"source": "en", "target": "fr"}
Event = tuple[str, dict[str, object]]


def events_of(text: str) -> list[Event]:
    """Read a stream as its specification says."""
    events = []
    for block in text.split("\n\n")[:-1]:
        if not block.startswith(":"):
            name, data = block.split("\n")
            events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    assert text.endswith("\n\n")
    return events


async def ask(client: httpx.AsyncClient, **fields: object) -> httpx.Response:
    return await client.post("/translate", json=REQUEST | fields, headers=EVENTS)


def texts_of(events: list[Event], index: int = 0) -> list[str]:
    return [
        str(data["translatedText"]) for name, data in events if name == "partial" and data["index"] == index
    ]


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream; charset=utf-8", True),
        ("text/event-stream, application/json", True),
        ("application/json, text/event-stream", False),
        ("application/json;q=0.5, text/event-stream", True),
        ("text/event-stream;q=0.4, */*;q=0.5", False),
        ("text/event-stream;q=0", False),
        ("text/event-stream;q=high", False),
        ("*/*", False),
        ("text/html", False),
        ("text/html, " * 31 + "text/event-stream", True),
        ("text/html, " * 32 + "text/event-stream", False),
        ("", False),
    ],
)
def test_accept_decides_between_json_and_events(accept: str, expected: bool) -> None:
    assert prefers_events(accept) is expected


async def test_a_translation_grows_and_ends_as_the_plain_answer(
    client: httpx.AsyncClient, backend: DoubleBackend
) -> None:
    take_steps(backend, 0.05)
    request = {"q": "one two three. four five\n\nsix seven eight nine ten", "include": ["scores"]}
    streamed = await ask(client, **request)
    assert streamed.status_code == 200
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert (streamed.headers["cache-control"], streamed.headers["x-accel-buffering"]) == ("no-store", "no")
    events = events_of(streamed.text)
    plain = (await client.post("/translate", json=REQUEST | request)).json()
    assert events[-1] == ("done", plain)
    partials = texts_of(events)
    assert len(partials) >= 3
    assert [name for name, _ in events[:-1]] == ["partial"] * len(partials)
    for shorter, longer in pairwise([*partials, plain["translatedText"]]):
        assert longer.startswith(shorter)
        assert shorter
    assert len(set(partials)) == len(partials)
    assert {part.split()[-1] for part in partials} <= set(plain["translatedText"].split())


async def test_every_text_of_a_list_grows(client: httpx.AsyncClient, backend: DoubleBackend) -> None:
    take_steps(backend, 0.03)
    events = events_of((await ask(client, q=["a b c d", "", "e f g h"], alternatives=1)).text)
    assert events[-1][1]["translatedText"] == ["A B C D", "", "E F G H"]
    assert len(list(events[-1][1]["alternatives"])) == 3  # type: ignore[call-overload]
    assert texts_of(events, 1) == []
    for index, whole in ((0, "A B C D"), (2, "E F G H")):
        assert texts_of(events, index)
        assert all(whole.startswith(text) for text in texts_of(events, index))


async def test_what_needs_no_decoding_is_only_done(client: httpx.AsyncClient) -> None:
    for text in ("", "42"):
        assert events_of((await ask(client, q=text)).text) == [
            ("done", {"translatedText": text, "model": None, "model_version": None})
        ]


async def test_an_early_error_is_an_ordinary_one(client: httpx.AsyncClient) -> None:
    response = await ask(client, q="a", target="xx")
    assert (response.status_code, response.json()["code"]) == (400, "unsupported_language")
    assert response.headers["content-type"] == "application/json"


async def test_a_deadline_before_the_first_event_is_504(
    client: httpx.AsyncClient, backend: DoubleBackend
) -> None:
    backend.gate.clear()
    response = await ask(client, q="one two", timeout_ms=30)
    assert (response.status_code, response.json()["code"]) == (504, "deadline_passed")
    backend.gate.set()


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set once the first part of a translation is shown."""
    shown, partial = asyncio.Event(), streaming._partial

    def note(index: int, text: str) -> bytes:
        shown.set()
        return partial(index, text)

    monkeypatch.setattr(streaming, "_partial", note)
    return shown


async def test_a_late_error_is_the_last_event(
    client: httpx.AsyncClient,
    backend: DoubleBackend,
    shown: asyncio.Event,
    pass_time: Callable[[float], None],
) -> None:
    backend.stops_at = 3
    call = asyncio.create_task(ask(client, q="word " * 30))
    await asyncio.wait_for(shown.wait(), 10)
    pass_time(60)
    response = await call
    backend.gate.set()
    events = events_of(response.text)
    assert response.status_code == 200
    assert events[0][0] == "partial"
    assert events[-1][0] == "error"
    assert events[-1][1]["code"] == "deadline_passed"
    assert events[-1][1]["request_id"] == response.headers["X-Request-ID"]
    assert "done" not in {name for name, _ in events}
    metrics = (await client.get("/metrics")).text
    assert 'dragoman_rejected_total{reason="deadline_passed"} 1.0' in metrics
    assert 'dragoman_cancelled_total{stage="decoding"} 1.0' in metrics


async def test_a_fault_after_the_first_event_says_nothing_internal(
    client: httpx.AsyncClient, backend: DoubleBackend, shown: asyncio.Event
) -> None:
    backend.stops_at = 3
    call = asyncio.create_task(ask(client, q="word " * 38 + "last"))
    await asyncio.wait_for(shown.wait(), 10)
    backend.poison = "last"
    backend.gate.set()
    events = events_of((await call).text)
    assert events[0][0] == "partial"
    assert events[-1][0] == "error"
    assert events[-1][1]["code"] == "internal_error"
    assert "cannot decode" not in str(events)


async def test_silence_is_broken_by_comments(
    serve: Serve, backend: DoubleBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "_HEARTBEAT_SECONDS", 0.05)
    async with serve() as client:
        backend.gate.clear()
        call = asyncio.create_task(ask(client, q="one two"))
        await asyncio.sleep(0.3)
        backend.gate.set()
        text = (await call).text
    assert text.startswith(": still translating\n\n")
    assert events_of(text)[-1] == (
        "done",
        {"translatedText": "ONE TWO", "model": "tiny", "model_version": "1+cccccccc"},
    )


async def test_streams_share_the_queue_with_everyone(serve: Serve) -> None:
    backend = DoubleBackend(workers=2)
    backend.seconds = 0.002
    async with serve(backend) as client:
        texts = [f"client {i} wants this" for i in range(40)]
        streams = asyncio.gather(*(ask(client, q=text) for text in texts))
        plain = asyncio.gather(*(client.post("/translate", json=REQUEST | {"q": text}) for text in texts))
        for streamed, answer, text in zip(await streams, await plain, texts, strict=True):
            assert events_of(streamed.text)[-1][1] == answer.json()
            assert answer.json()["translatedText"] == text.upper()


def test_events_come_over_a_real_socket_and_a_client_that_leaves_frees_the_engine() -> None:
    with running(DOUBLE_SECONDS="0.25") as live:
        connection = HTTPConnection("127.0.0.1", live.port, timeout=60)
        connection.request("POST", "/translate", body_of("word " * 39), JSON | EVENTS)
        response = connection.getresponse()
        assert response.getheader("transfer-encoding") == "chunked"
        assert response.readline() == b"event: partial\n"
        first = json.loads(response.readline().removeprefix(b"data: "))
        assert set(first.pop("translatedText").split()) == {"WORD"}
        assert first == {"index": 0}
        assert 'cancelled_total{stage="decoding"} 0.0' in live.get("metrics")
        # Far from the end: about 10 s are needed for all of it.
        response.close()
        connection.close()
        wait_for(lambda: 'cancelled_total{stage="decoding"} 1.0' in live.get("metrics"))
        wait_until_in_flight(live, 0)
        assert live.translate() == (
            200,
            {"translatedText": "ONE TWO", "model": "tiny", "model_version": "1+cccccccc"},
        )


EMBEDDED = ("The little cat sleeps on the sofa.\nI have lost my way.", "Where is my brother?")


@pytest.mark.parametrize("native", [pytest.param("auto", marks=needs_native), "off"])
def test_the_embedded_checkpoint_streams_over_a_real_socket(native: str) -> None:
    """Greedy, beam and sampling: only ever added to, and the end is the plain answer."""
    with running(real=True, DRAGOMAN_NATIVE=native, DRAGOMAN_REQUEST_TIMEOUT_MS="300000") as live:
        for decoding in ({"beam_size": 2}, {"strategy": "greedy"}, {"strategy": "sample", "seed": 5}):
            body = body_of(EMBEDDED, decoding=decoding)
            _, plain = live.post(body, JSON)
            _, streamed = live.post(body, JSON | EVENTS)
            events = events_of(streamed)
            assert events[-1] == ("done", json.loads(plain))
            for index, whole in enumerate(json.loads(plain)["translatedText"]):
                partials = texts_of(events, index)
                # Natively all may be over before the first event could be sent.
                assert partials or index or native == "auto"
                for shorter, longer in pairwise([*partials, whole]):
                    assert longer.startswith(shorter)
