"""One connection, without a socket: bodies in chunks, turns, and what becomes of the connection."""

import asyncio
import gc
import json
import logging
import weakref

import pytest
from starlette.types import Receive, Scope, Send

from app.connection.limits import ConnectionLimit
from tests.app.connection.connection import Wire

pytestmark = pytest.mark.anyio
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
SIZED = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
START = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]}


class PatientWire(Wire):
    """A connection to an application that answers when it may, whatever has come."""

    def __init__(self, limit: ConnectionLimit | None = None) -> None:
        super().__init__(limit)
        self.may_answer = asyncio.Event()
        self.calls = 0

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        self.calls += 1
        await self.may_answer.wait()
        await send(START)
        await send({"type": "http.response.body", "body": b"done"})


@pytest.mark.parametrize(
    ("chunks", "status"),
    [
        (b"\r\n1", 400),
        (b"g\r\n", 400),
        (b"-1\r\n", 400),
        (b"0x1\r\n", 400),
        (b"1\na\r\n", 400),
        (b"1 a\r\n", 400),
        (b"1\r\nab\r\n", 400),
        (b"1;\0\r\n", 400),
        (b"f" * 17 + b"\r\n", 400),
        (b"0\r\nno colon\r\n", 400),
        (b"0\r\nA: \0\r\n", 400),
        (b"0\r\nA: b\n\r\nc", 400),
        (b"1;" + b"a" * 40_000, 413),
        (b"0\r\n" + b"A: b\r\n" * 7000, 413),
        (b"1\r\na\r\n" * 9000, 413),
        (b"9000\r\n" + b"\r\n\r\n" * 9000, 413),
    ],
)
async def test_a_bad_chunk(chunks: bytes, status: int) -> None:
    wire = Wire()
    await wire.send(CHUNKED + chunks)
    assert (wire.statuses, wire.has_ended, wire.seen) == ([status], True, [])


async def test_fields_behind_the_last_chunk_are_not_taken_for_the_heads() -> None:
    wire = Wire()
    await wire.send(CHUNKED + b"1\r\na\r\n0\r\nAuthorization: Bearer key\r\n\r\n")
    assert b"authorization" not in dict(wire.seen[0].fields)


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 3\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"]
)
async def test_the_wish_for_another_protocol_is_ignored(framing: bytes) -> None:
    wire = Wire()
    await wire.send(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n" + framing + GET)
    assert [(seen.method, seen.body) for seen in wire.seen] == [("POST", b"abc"), ("GET", b"")]


@pytest.mark.parametrize("line", [b"\r\n", b"\r", b"\r\n\r"])
async def test_an_empty_line_behind_a_request_begins_no_other(line: bytes) -> None:
    wire = Wire()
    await wire.send(GET + line)
    assert (wire.statuses, wire.has_ended) == ([200], False)
    assert wire.protocol._receiving._handle is None
    await wire.send(b"\r\n\r\n"[len(line) :] + GET)
    assert wire.statuses == [200, 200]


async def test_what_is_sent_ahead_waits_for_its_turn() -> None:
    wire = PatientWire()
    await wire.send(GET + GET + b"nonsense")
    assert (wire.calls, wire.statuses) == (1, [])
    wire.may_answer.set()
    await wire.send(b"\r\n")
    assert (wire.calls, wire.statuses) == (2, [200, 200, 400])


@pytest.mark.parametrize(
    ("data", "closes"), [(SIZED + b"he", True), (SIZED + b"hello", False), (CHUNKED, True)]
)
async def test_a_client_that_is_answered_early_may_finish_its_request_only(data: bytes, closes: bool) -> None:
    wire = PatientWire()
    wire.may_answer.set()
    await wire.send(data)
    assert (b"connection: close\r\n" in wire.written) is closes
    # It has an end, but is not closed yet: that would destroy the answer.
    assert (wire.has_ended, wire.is_closing()) == (closes, False)
    await wire.send(GET)
    assert wire.statuses == ([200] if closes else [200, 200])


@pytest.mark.parametrize(
    ("version", "body"), [(b"1.0", b"done"), (b"1.1", b"2\r\ndo\r\n2\r\nne\r\n0\r\n\r\n")]
)
async def test_chunks_are_sent_over_http_1_1_only(version: bytes, body: bytes) -> None:
    class Growing(Wire):
        async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": b"do", "more_body": True})
            await send({"type": "http.response.body", "body": b"ne"})

    wire = Growing()
    await wire.send(b"GET / HTTP/%b\r\nHost: x\r\n\r\n" % version)
    head, _, received = wire.written.partition(b"\r\n\r\n")
    assert (b"transfer-encoding: chunked" in head, received) == (version == b"1.1", body)
    assert wire.is_closing() is (version == b"1.0")


async def test_a_fault_after_the_beginning_of_an_answer_adds_nothing_to_it() -> None:
    class Half(Wire):
        async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
            await send(START)
            await send({"type": "http.response.body", "body": b"do", "more_body": True})
            self.last = await receive()

    wire = Half()
    await wire.send(CHUNKED)
    await wire.send(b"nonsense\r\n")
    assert wire.written.endswith(b"\r\n\r\ndo")
    assert (wire.has_ended, wire.last) == (True, {"type": "http.disconnect"})


async def test_at_the_end_of_the_server_the_request_at_hand_is_the_last() -> None:
    wire = PatientWire()
    await wire.send(GET)
    wire.protocol.shutdown()
    assert not wire.has_ended
    wire.may_answer.set()
    await wire.send(b"")
    assert b"connection: close\r\n" in wire.written
    assert wire.is_closing()


async def test_a_refusal_that_ends_no_request_is_counted_by_its_code() -> None:
    wire = Wire()
    await wire.send(GET + b"nonsense\r\n\r\n")
    assert (wire.statuses, wire.rejections) == ([200, 400], ["malformed_request"])


async def test_a_rejection_that_ends_a_request_is_left_to_the_application() -> None:
    class Half(Wire):
        async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            self.state = scope["state"]

    wire = Half()
    await wire.send(CHUNKED + b"nonsense\r\n")
    assert (wire.statuses, wire.rejections, wire.state["wire_status"]) == ([400], [], 400)


async def test_a_refusal_is_logged_under_the_id_that_the_client_got(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire()
    with caplog.at_level(logging.INFO, "app.connection.protocol"):
        await wire.send(b"nonsense\r\n\r\n")
    (record,) = caplog.records
    body = json.loads(wire.written.partition(b"\r\n\r\n")[2])
    assert (record.code, record.request_id) == (body["code"], body["request_id"])  # type: ignore[attr-defined]


async def test_a_client_that_reads_slowly_but_steadily_may_go_on() -> None:
    wire = Wire()
    wire.num_unread = 2**20
    wire.protocol.pause_writing()
    sending = wire.protocol._sending
    for _ in range(5):
        unread, wire.num_unread = wire.num_unread, wire.num_unread - 16 * 1024
        sending._check(-unread)
        assert not wire.is_closing()
    unread, wire.num_unread = wire.num_unread, wire.num_unread - 1000
    sending._check(-unread)
    assert wire.is_closing()


async def test_a_client_that_has_read_everything_is_not_timed() -> None:
    wire = Wire()
    wire.protocol.pause_writing()
    wire.protocol.resume_writing()
    assert wire.protocol._sending._handle is None


async def test_a_connection_that_was_lost_is_freed_without_the_garbage_collector() -> None:
    wire = Wire()
    await wire.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert wire.statuses == [200]
    wire.protocol.connection_lost(None)
    lost = weakref.ref(wire.protocol)
    gc.disable()
    try:
        del wire.protocol
        assert lost() is None
    finally:
        gc.enable()
