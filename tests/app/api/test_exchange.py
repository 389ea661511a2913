"""One request as ASGI sees it: when its body can be received, and what becomes of its answer."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from starlette.types import Receive, Scope, Send

from app.api.exchange import Exchange
from app.api.head import Head

pytestmark = pytest.mark.anyio
START = {"type": "http.response.start", "status": 200, "headers": []}
END = {"type": "http.response.body", "body": b"done"}
GONE = {"type": "http.disconnect"}


class RecordingLine:
    """What an exchange does to its connection."""

    def __init__(self) -> None:
        self.written = b""
        self.ends: list[str] = []

    def write(self, data: bytes) -> None:
        self.written += data

    async def drained(self) -> None:
        return None

    def resume_reading(self) -> None:
        self.ends.append("reads on")

    def finish(self, *, closes: bool) -> None:
        self.ends.append("closes" if closes else "goes on")

    def abort(self) -> None:
        self.ends.append("aborts")


@pytest.fixture
def line() -> RecordingLine:
    return RecordingLine()


def exchange_on(line: RecordingLine, *, is_last: bool = False, awaits_invitation: bool = False) -> Exchange:
    head = Head("POST", b"/", "1.1", [], 3, is_last, awaits_invitation)
    return Exchange(head, {"type": "http"}, line, [])


def message(body: bytes, more_body: bool) -> dict[str, object]:
    return {"type": "http.request", "body": body, "more_body": more_body}


async def test_the_body_comes_as_it_arrives(line: RecordingLine) -> None:
    exchange = exchange_on(line)
    first = asyncio.create_task(exchange.receive())
    await asyncio.sleep(0)
    exchange.feed(b"a", is_last=False)
    assert await first == message(b"a", True)
    exchange.feed(b"b", is_last=False)
    exchange.feed(b"c", is_last=True)
    assert exchange.num_unread == 2
    assert await exchange.receive() == message(b"bc", False)
    assert (exchange.num_unread, line.ends) == (0, ["reads on", "reads on"])


async def test_an_empty_body_is_one_empty_message(line: RecordingLine) -> None:
    exchange = exchange_on(line)
    exchange.feed(b"", is_last=True)
    assert await exchange.receive() == message(b"", False)


@pytest.mark.parametrize("is_answered", [True, False])
async def test_behind_the_body_only_an_end_is_received(line: RecordingLine, is_answered: bool) -> None:
    exchange = exchange_on(line)
    exchange.feed(b"abc", is_last=True)
    await exchange.receive()
    departure = asyncio.create_task(exchange.receive())
    await asyncio.sleep(0)
    assert not departure.done()
    if is_answered:
        await exchange.send(START)
        await exchange.send(END)
    else:
        exchange.abandon()
    assert await departure == GONE
    assert await exchange.receive() == GONE


async def test_nothing_is_sent_to_a_client_that_left(line: RecordingLine) -> None:
    exchange = exchange_on(line)
    exchange.feed(b"", is_last=True)
    await exchange.send(START)
    exchange.abandon()
    await exchange.send(END)
    assert (line.written, line.ends) == (b"", [])


@pytest.mark.parametrize(
    ("is_last", "has_all", "end"),
    [(False, True, "goes on"), (True, True, "closes"), (False, False, "closes")],
)
async def test_what_follows_an_answer(line: RecordingLine, is_last: bool, has_all: bool, end: str) -> None:
    exchange = exchange_on(line, is_last=is_last)
    exchange.feed(b"a", is_last=has_all)
    await exchange.send(START)
    assert not exchange.has_begun_to_answer
    await exchange.send(END)
    assert line.written.endswith(b"\r\n\r\ndone")
    assert (b"connection: close" in line.written) == (end == "closes")
    assert line.ends == [end]


@pytest.mark.parametrize("has_come", [True, False])
async def test_a_client_is_invited_unless_it_began_by_itself(line: RecordingLine, has_come: bool) -> None:
    exchange = exchange_on(line, awaits_invitation=True)
    if has_come:
        exchange.feed(b"abc", is_last=True)
    body = asyncio.create_task(exchange.receive())
    await asyncio.sleep(0)
    assert line.written == (b"" if has_come else b"HTTP/1.1 100 Continue\r\n\r\n")
    exchange.feed(b"", is_last=True)
    await body


async def raise_late(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send(START)
    await send({"type": "http.response.body", "body": b"half", "more_body": True})
    raise ValueError("nobody caught this")


async def end_early(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send(START)


@pytest.mark.parametrize("app", [raise_late, end_early])
async def test_an_answer_that_breaks_off_ends_the_connection(
    line: RecordingLine, app: Callable[[Scope, Receive, Send], Awaitable[None]]
) -> None:
    await exchange_on(line).run(app)
    assert line.ends == ["aborts"]
