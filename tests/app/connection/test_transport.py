"""Answers to HTTP/1.0, which knows no chunks."""

import pytest
from starlette.types import Receive, Scope, Send

from tests.app.connection.connection import Wire

pytestmark = pytest.mark.anyio


class StreamingWire(Wire):
    """A connection to an application that does not say how long its answer is."""

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in (b"one ", b"", b"two"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})


async def test_an_answer_of_unknown_length_ends_with_the_connection() -> None:
    wire = StreamingWire()
    await wire.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    head, _, body = wire.written.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert (body, wire.has_ended) == (b"one two", True)


async def test_one_of_known_length_says_it() -> None:
    wire = Wire()
    await wire.send(b"GET / HTTP/1.0\r\n\r\n")
    assert b"\r\ncontent-length: 4\r\n" in wire.written
    assert (wire.written[-8:], wire.has_ended) == (b"\r\n\r\ndone", True)


async def test_todays_clients_get_chunks() -> None:
    wire = StreamingWire()
    await wire.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert wire.written.endswith(b"4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n")
