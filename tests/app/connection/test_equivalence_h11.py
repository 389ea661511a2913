"""Whatever we take for a request, h11 takes for the same one, so that a proxy hardly takes it for another."""

import asyncio
import re
from collections.abc import Sequence
from itertools import pairwise

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.app.connection.connection import Seen, Wire

REQUESTS = [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /translate?a=b HTTP/1.1\r\nHost: x:1\r\nAccept: */*\r\nContent-Length: 5\r\n\r\nhello",
    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2;a\r\nde\r\n0\r\nA:\r\n\r\n",
    b"PUT / HTTP/1.0\r\nConnection: close\r\nContent-Length: 1\r\n\r\na",
    b"GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\nUpgrade: h2c\r\n\r\n",
]
SPLICES = [
    b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b":", b",", b";", b"0", b"1", b"5", b"f", b"a", b"\xff",
    b"HTTP/1.0", b"BREW", b"get",
    b"Host: y\r\n", b"Content-Length: 5\r\n", b"Content-Length: 6\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip\r\n", b"Connection: close\r\n", b"Expect: 100-continue\r\n", b" folded\r\n",
]  # fmt: skip
# What RFC 9112 asks for (2.2) or allows (3), and h11 does not do: empty lines and spaces may be more.
LENIENCY = re.compile(rb"\A[\r\n]*([!-~]+) +([!-~]+) +")


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """A good request with a few bytes put in, taken out or replaced."""
    data = draw(st.sampled_from(REQUESTS))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(data)))
        dropped = draw(st.integers(0, 2))
        data = data[:place] + draw(st.sampled_from([b"", *SPLICES])) + data[place + dropped :]
    return data


def ours(data: bytes, cuts: Sequence[int] = ()) -> list[Seen]:
    """Requests that the application saw, when data comes in pieces."""

    async def send() -> list[Seen]:
        wire = Wire()
        places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
        for start, end in pairwise(places):
            await wire.send(data[start:end])
        wire.protocol.connection_lost(None)
        return wire.seen

    return asyncio.run(send())


def h11s(data: bytes) -> Seen | None:
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(LENIENCY.sub(rb"\1 \2 ", data))
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
    return Seen(method, request.target, version, fields, content)


@pytest.mark.parametrize("request_bytes", REQUESTS)
def test_good_requests_are_read_by_both(request_bytes: bytes) -> None:
    assert ours(request_bytes) == [h11s(request_bytes)]


@settings(max_examples=500)
@given(mutations(), st.lists(st.integers(0, 200), max_size=3))
def test_what_is_a_request_for_us_is_the_same_for_h11(data: bytes, cuts: list[int]) -> None:
    found = ours(data, cuts)
    if found:
        assert h11s(data) == found[0]


@settings(max_examples=50)
@given(st.permutations(REQUESTS[:3]), st.lists(st.integers(0, 400), max_size=5))
def test_requests_may_be_cut_anywhere(requests: list[bytes], cuts: list[int]) -> None:
    assert ours(b"".join(requests), cuts) == [h11s(request) for request in requests]
