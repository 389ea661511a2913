"""Heads of requests: what is read from them, and what is refused."""

import time

import pytest

from app.api.head import Head, WireError, take_head

LINE = b"GET /a?b HTTP/1.1\r\n"
HOST = b"Host: x\r\n"


def read(head: bytes) -> Head:
    buffer = bytearray(head + b"\r\nrest")
    found = take_head(buffer)
    assert found is not None
    assert buffer == b"rest"
    return found


def test_what_a_head_says() -> None:
    head = read(
        b"POST /a%20b?c=d HTTP/1.1\r\nhOST:x\r\nAccept: \t a, b\t \r\nX-Empty:\r\nContent-Length: 12\r\n"
    )
    assert head == Head(
        method="POST",
        target=b"/a%20b?c=d",
        version="1.1",
        fields=[(b"host", b"x"), (b"accept", b"a, b"), (b"x-empty", b""), (b"content-length", b"12")],
        length=12,
        is_last=False,
        awaits_invitation=False,
    )


def test_a_method_need_not_be_known() -> None:
    assert read(b"BREW /pot HTTP/1.1\r\n" + HOST).method == "BREW"


@pytest.mark.parametrize(
    ("fields", "length"),
    [(b"", 0), (b"Content-Length: 0\r\n", 0), (b"Transfer-Encoding: Chunked\r\n", None)],
)
def test_the_length_of_the_body(fields: bytes, length: int | None) -> None:
    assert read(LINE + HOST + fields).length == length


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
def test_whether_it_is_the_last(head: bytes, is_last: bool) -> None:
    assert read(head).is_last is is_last


@pytest.mark.parametrize(("version", "awaits"), [(b"1.1", True), (b"1.0", False)])
def test_an_invitation_is_only_for_those_who_know_it(version: bytes, awaits: bool) -> None:
    head = read(b"POST / HTTP/" + version + b"\r\n" + HOST + b"Expect: 100-Continue\r\n")
    assert head.awaits_invitation is awaits


@pytest.mark.parametrize(
    "head",
    [
        b"\r\n" + LINE + HOST,
        b"GET  / HTTP/1.1\r\n" + HOST,
        b"GET /a b HTTP/1.1\r\n" + HOST,
        b"GET /\xc3\xa9 HTTP/1.1\r\n" + HOST,
        b"GET / HTTP/1.1 \r\n" + HOST,
        b"GET / http/1.1\r\n" + HOST,
        b"GET / HTTP/01.1\r\n" + HOST,
        b"GET /\r\n" + HOST,
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
        LINE + HOST + b"Content-Length: " + b"9" * 19 + b"\r\n",
        LINE + HOST + b"Transfer-Encoding: gzip, chunked\r\n",
        LINE + HOST + b"Transfer-Encoding: identity\r\n",
        LINE + HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        LINE + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n",
    ],
)
def test_what_could_be_taken_for_something_else_is_refused(head: bytes) -> None:
    assert status(head + b"\r\n") == 400


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505),
        (b"GET / HTTP/0.9\r\n" + HOST + b"\r\n", 505),
        (b"GET /" + b"a" * 8192 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
        (b"GET /" + b"a" * 65536, 414),
        (LINE + HOST + b"A: b\r\n" * 100 + b"\r\n", 431),
        (LINE + HOST + b"A: " + b"b" * 16384, 431),
        (LINE + HOST + b"A: " + b"b" * 16384 + b"\r\n\r\n", 431),
    ],
)
def test_limits_and_versions(data: bytes, expected: int) -> None:
    assert status(data) == expected


@pytest.mark.parametrize("data", [b"\x16\x03\x01", b"\r", b" ", b"GET / HTTP/1.1\n\n", LINE + b"A: b\n\r\n"])
def test_what_can_never_become_a_head_is_refused_at_once(data: bytes) -> None:
    assert status(data) == 400


@pytest.mark.parametrize("data", [b"", b"G", LINE, LINE + HOST, LINE + HOST + b"\r"])
def test_an_incomplete_head_is_waited_for(data: bytes) -> None:
    buffer = bytearray(data)
    assert take_head(buffer) is None
    assert buffer == data


def test_a_head_that_comes_byte_by_byte_takes_little_time() -> None:
    began = time.thread_time()
    buffer = bytearray()
    for byte in LINE + HOST + b"A: " + b"b" * 16_000:
        buffer.append(byte)
        assert take_head(buffer) is None
    assert time.thread_time() - began < 1


def status(data: bytes) -> int:
    with pytest.raises(WireError) as refusal:
        take_head(bytearray(data))
    return refusal.value.status
