"""Each stage's time, in the header of the answer and in the log line."""

import asyncio
import re
from collections.abc import Callable

import httpx
import pytest

from tests.app.conftest import Lines, Serve, until
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio
REQUEST = {"q": "one two three", "source": "en", "target": "fr"}
STAGES = ["split", "encode", "queue", "decode", "finish"]


def timing_of(response: httpx.Response) -> dict[str, float]:
    """Milliseconds by stage, as https://www.w3.org/TR/server-timing/ writes them."""
    entries = response.headers["Server-Timing"].split(", ")
    assert all(re.fullmatch(r"[a-z]+;dur=\d+\.\d{3}", entry) for entry in entries)
    return {name: float(value) for name, _, value in (entry.partition(";dur=") for entry in entries)}


async def test_an_answer_tells_all_stages_in_order(client: httpx.AsyncClient, backend: DoubleBackend) -> None:
    backend.seconds = 0.02
    timing = timing_of(await client.post("/translate", json=REQUEST))
    assert list(timing) == STAGES
    # Four steps; the last token is the end of the sentence.
    assert timing["decode"] >= 60


async def test_waiting_counts_as_queue_and_not_as_decoding(serve: Serve, backend: DoubleBackend) -> None:
    backend.room, backend.seconds = 1, 0.2
    async with serve() as client:
        first = asyncio.create_task(client.post("/translate", json=REQUEST))
        await until(backend.entered.is_set)
        second = timing_of(await client.post("/translate", json=REQUEST | {"q": "four"}))
        assert timing_of(await first)["queue"] < second["queue"]
        assert second["queue"] > 50


@pytest.mark.parametrize(
    ("fields", "status", "timings"),
    [
        ({}, 504, ["split", "encode", "queue", "decode"]),
        ({"q": "poison"}, 500, ["split", "encode", "queue", "decode"]),
        ({"q": ""}, 200, ["split", "finish"]),
    ],
)
async def test_an_error_tells_how_far_it_came(
    client: httpx.AsyncClient,
    backend: DoubleBackend,
    fields: dict[str, object],
    status: int,
    timings: list[str],
    pass_time: Callable[[float], None],
) -> None:
    backend.poison = "poison"
    if status == 504:
        backend.gate.clear()
    call = asyncio.create_task(client.post("/translate", json=REQUEST | fields))
    if status == 504:
        await until(backend.held.is_set)
        pass_time(60)
    response = await call
    backend.gate.set()
    assert response.status_code == status
    assert list(timing_of(response)) == timings


async def test_a_stream_tells_what_has_passed_and_a_probe_nothing(
    client: httpx.AsyncClient,
) -> None:
    response = await client.post("/translate", json=REQUEST, headers={"Accept": "text/event-stream"})
    assert list(timing_of(response))[:2] == ["split", "encode"]
    for path in ("/livez", "/nowhere"):
        assert "Server-Timing" not in (await client.get(path)).headers


async def test_the_log_line_tells_the_same_and_how_much_there_was(
    client: httpx.AsyncClient, lines: Lines
) -> None:
    answer = await client.post("/translate", json=REQUEST | {"q": ["one two", "three four\n" * 200]})
    event = next(line for line in lines() if line["event"] == "request")
    for stage, milliseconds in timing_of(answer).items():
        assert event[f"{stage}_seconds"] == pytest.approx(milliseconds / 1000, abs=2e-6)
    assert sum(float(event[f"{stage}_seconds"]) for stage in STAGES) <= float(event["seconds"])
    facts = {name: event[name] for name in ("endpoint", "status", "outcome", "items", "characters", "pair")}
    assert facts == {
        "endpoint": "/translate", "status": 200, "outcome": "answered",
        "items": 2, "characters": 2207, "pair": "en-fr",
    }  # fmt: skip
    assert event["source_tokens"] == 603
