"""Heads of requests: what is refused, by llhttp or by us, and the limits."""

import time

import pytest

from tests.app.connection.connection import Wire

pytestmark = pytest.mark.anyio
LINE = b"GET /a?b HTTP/1.1\r\n"
HOST = b"Host: x\r\n"


async def statuses(data: bytes) -> list[int]:
    wire = Wire()
    await wire.send(data)
    return wire.statuses


async def test_what_an_application_sees_of_a_head() -> None:
    wire = Wire()
    fields = b"hOST:x\r\nAccept: \t a, b\t \r\nX-Empty:\r\nTransfer-Encoding: Chunked\r\n"
    await wire.send(b"POST /a%20b?c=d HTTP/1.1\r\n" + fields + b"\r\n1\r\na\r\n0\r\nTrailer: x\r\n\r\n")
    (seen,) = wire.seen
    assert (seen.method, seen.target, seen.version, seen.body) == ("POST", b"/a%20b?c=d", "1.1", b"a")
    assert seen.fields == [
        (b"host", b"x"), (b"accept", b"a, b"), (b"x-empty", b""), (b"transfer-encoding", b"Chunked"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("head", "is_last"),
    [
        (LINE + HOST, False),
        (LINE + HOST + b"Connection: keep-alive\r\n", False),
        (LINE + HOST + b"Connection: Upgrade , CLOSE\r\n", True),
        (LINE + HOST + b"Connection: close\r\nConnection: upgrade\r\n", True),
        (b"GET / HTTP/1.0\r\n", True),
    ],
)
async def test_whether_it_is_the_last(head: bytes, is_last: bool) -> None:
    wire = Wire()
    await wire.send(head + b"\r\n")
    assert (wire.statuses, wire.has_ended) == ([200], is_last)
    assert (b"connection: close\r\n" in wire.written) is is_last


@pytest.mark.parametrize(("version", "expects_continue"), [(b"1.1", True), (b"1.0", False)])
async def test_100_continue_is_sent_over_http_1_1_only(version: bytes, expects_continue: bool) -> None:
    wire = Wire()
    fields = HOST + b"Content-Length: 1\r\nExpect: 100-Continue\r\n\r\n"
    await wire.send(b"POST / HTTP/" + version + b"\r\n" + fields)
    assert wire.written == (b"HTTP/1.1 100 Continue\r\n\r\n" if expects_continue else b"")


@pytest.mark.parametrize(
    "head",
    [
        b"GET /a b HTTP/1.1\r\n" + HOST,
        b"GET /\xc3\xa9 HTTP/1.1\r\n" + HOST,
        b"GET /?\xc3\xa9 HTTP/1.1\r\n" + HOST,
        b"GET / HTTP/1.1 \r\n" + HOST,
        b"GET / http/1.1\r\n" + HOST,
        b"GET / HTTP/01.1\r\n" + HOST,
        b"CONNECT x:80 HTTP/1.1\r\n" + HOST,
        b"CONNECT /livez HTTP/1.1\r\n" + HOST + b"Connection: upgrade\r\nUpgrade: h2c\r\n",
        LINE,
        LINE + HOST + HOST,
        LINE + HOST + b" folded: field\r\n",
        LINE + HOST + b"A: b\r\n c\r\n",
        LINE + HOST + b"Spaced : b\r\n",
        LINE + HOST + b": b\r\n",
        LINE + HOST + b"no colon\r\n",
        LINE + HOST + b"A: b\nC: d\r\n",
        LINE + HOST + b"A: b\rC: d\r\n",
        LINE + HOST + b"A: b\0\r\n",
        LINE + HOST + b"A: \x7f\r\n",
        LINE + HOST + b"\xc3\xa9: b\r\n",
        LINE + HOST + b"Content-Length: 1\r\nContent-Length: 1\r\n",
        LINE + HOST + b"Content-Length: 1, 1\r\n",
        LINE + HOST + b"Content-Length: +1\r\n",
        LINE + HOST + b"Content-Length: 0x1\r\n",
        LINE + HOST + b"Content-Length: \xb2\r\n",
        LINE + HOST + b"Content-Length:\r\n",
        LINE + HOST + b"Content-Length: " + b"9" * 20 + b"\r\n",
        LINE + HOST + b"Transfer-Encoding: gzip, chunked\r\n",
        LINE + HOST + b"Transfer-Encoding: identity\r\n",
        LINE + HOST + b"Transfer-Encoding:\r\n",
        LINE + HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        LINE + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",
        LINE + HOST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n",
    ],
)
async def test_what_could_be_taken_for_something_else_is_refused(head: bytes) -> None:
    assert await statuses(head + b"\r\n") == [400]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505),
        (b"GET /\r\n" + HOST + b"\r\n", 505),
        (b"GET / HTTP/0.9\r\n" + HOST + b"\r\n", 505),
        (b"GET / HTTP/1.2\r\n" + HOST + b"\r\n", 505),
        (b"GET /" + b"a" * 8192 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
        (b"GET /" + b"a" * 65536, 414),
        (LINE + HOST + b"A: b\r\n" * 100 + b"\r\n", 431),
        (LINE + HOST + b"A: b\r\n" * 99 + b"\r\n", 200),
        (LINE + HOST + b"A: " + b"b" * 16384, 431),
        (LINE + HOST + b"A: " + b"b" * 16384 + b"\r\n\r\n", 431),
        (LINE + HOST + b"A: " + b"b" * 16000 + b"\r\n\r\n", 200),
        (b"\r\n\r\n" * 5000, 431),
    ],
)
async def test_limits_and_versions(data: bytes, expected: int) -> None:
    assert await statuses(data) == [expected]


@pytest.mark.parametrize("data", [b"\x16\x03\x01", b" ", b"GET / HTTP/1.1\nHost", LINE + b"A: b\n\r\nB"])
async def test_what_can_never_become_a_head_is_refused_at_once(data: bytes) -> None:
    assert await statuses(data) == [400]


@pytest.mark.parametrize("data", [b"G", LINE, LINE + HOST, LINE + HOST + b"\r"])
async def test_an_incomplete_head_is_waited_for(data: bytes) -> None:
    assert await statuses(data) == []


async def test_a_head_that_comes_byte_by_byte_takes_little_time() -> None:
    wire = Wire()
    began = time.thread_time()
    for byte in LINE + HOST + b"A: " + b"b" * 16_000:
        wire.protocol.data_received(bytes([byte]))
    assert wire.statuses == []
    assert time.thread_time() - began < 5


@pytest.mark.parametrize("method", ["BREW", "get", "X-" + "Y" * 5000, "M-SEARCH2", "*"])
async def test_a_method_that_llhttp_does_not_know_is_refused(method: str) -> None:
    wire = Wire()
    await wire.send(f"\r\n{method} /a HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert (wire.statuses, wire.seen, wire.has_ended) == ([405], [], True)
    assert b"\r\nAllow: GET, HEAD, POST\r\n" in wire.written


@pytest.mark.parametrize(
    "data",
    [
        b"BRE",
        b"B\xc3W / HTTP/1.1\r\n",
        b"BR EW / HTTP/1.1\r\n",
        b"BREW\r\n",
        b"BREW / ICE/1.0\r\n",
        b" BREW / HTTP/1.1\r\n",
    ],
)
async def test_what_is_no_request_line_is_refused(data: bytes) -> None:
    assert await statuses(data + HOST + b"\r\n") == [400]


async def test_the_rest_of_a_line_is_not_taken_for_its_beginning() -> None:
    wire = Wire()
    await wire.send(b"B")
    await wire.send(b"REW / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert wire.statuses == [400]
