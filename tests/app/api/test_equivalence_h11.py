"""Whatever our parser takes for a request, h11 takes for the same one: it is the stricter of the two."""

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api.framing import body_of
from app.api.head import WireError, take_head

REQUESTS = [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /translate?a=b HTTP/1.1\r\nHost: x:1\r\nAccept: */*\r\nContent-Length: 5\r\n\r\nhello",
    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2;a\r\nde\r\n0\r\nA:\r\n\r\n",
    b"PUT / HTTP/1.0\r\nConnection: close\r\nContent-Length: 1\r\n\r\na",
    b"GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, upgrade\r\nUpgrade: h2c\r\n\r\n",
]
SPLICES = [
    b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b":", b",", b";", b"0", b"1", b"5", b"f", b"a", b"\xff",
    b"HTTP/1.0",
    b"Host: y\r\n", b"Content-Length: 5\r\n", b"Content-Length: 6\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip\r\n", b"Connection: close\r\n", b"Expect: 100-continue\r\n", b" folded\r\n",
]  # fmt: skip
Found = tuple[str, bytes, str, list[tuple[bytes, bytes]], bytes]


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """A good request with a few bytes put in, taken out or replaced."""
    data = draw(st.sampled_from(REQUESTS))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(data)))
        dropped = draw(st.integers(0, 2))
        data = data[:place] + draw(st.sampled_from([b"", *SPLICES])) + data[place + dropped :]
    return data


def ours(data: bytes) -> Found | None:
    buffer = bytearray(data)
    head = take_head(buffer)
    if head is None:
        return None
    body = body_of(head.length)
    content = body.take(buffer)
    return (head.method, head.target, head.version, head.fields, content) if body.is_complete else None


def h11s(data: bytes) -> Found | None:
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    request = connection.next_event()
    if not isinstance(request, h11.Request):
        return None
    content = b""
    while isinstance(event := connection.next_event(), h11.Data):
        content += event.data
    if not isinstance(event, h11.EndOfMessage):
        return None
    fields = [(name, value) for name, value in request.headers]
    method, version = request.method.decode(), request.http_version.decode()
    return method, request.target, version, fields, content


@pytest.mark.parametrize("request_bytes", REQUESTS)
def test_good_requests_are_read_by_both(request_bytes: bytes) -> None:
    assert ours(request_bytes) == h11s(request_bytes) is not None


@settings(max_examples=1000)
@given(mutations())
def test_what_is_a_request_for_us_is_the_same_for_h11(data: bytes) -> None:
    try:
        found = ours(data)
    except WireError:
        return
    if found is not None:
        assert h11s(data) == found
