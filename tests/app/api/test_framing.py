"""Bodies of requests, however they arrive."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.framing import Body, body_of
from app.api.head import WireError

CHUNKS = b"3\r\nabc\r\n0A;name=value\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"


def take_all(body: Body, data: bytes, cuts: list[int]) -> tuple[bytes, bytes]:
    """Content of the body, and what is left behind it, when data comes in pieces."""
    buffer, content = bytearray(), b""
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in pairwise(places):
        buffer += data[start:end]
        if not body.is_complete:
            content += body.take(buffer)
    return content, bytes(buffer)


@given(st.lists(st.integers(0, 100)))
def test_chunks_may_be_cut_anywhere(cuts: list[int]) -> None:
    body = body_of(None)
    assert take_all(body, CHUNKS + b"GET /", cuts) == (b"abc0123456789", b"GET /")
    assert body.is_complete


@given(st.lists(st.integers(0, 100)))
def test_a_length_may_be_cut_anywhere(cuts: list[int]) -> None:
    body = body_of(5)
    assert take_all(body, b"abcdeGET /", cuts) == (b"abcde", b"GET /")
    assert body.is_complete


def test_nothing_is_complete_at_once() -> None:
    assert body_of(0).is_complete
    assert not body_of(1).is_complete
    assert not body_of(None).is_complete


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\r\n", 400),
        (b"g\r\n", 400),
        (b"-1\r\n", 400),
        (b"0x1\r\n", 400),
        (b"1\n", None),
        (b"1\na\r\n", 400),
        (b"1 a\r\n", 400),
        (b"1\r\nab\r\n", 400),
        (b"1;\0\r\n", 400),
        (b"f" * 16 + b"\r\n", 400),
        (b"1;" + b"a" * 300, 400),
        (b"0\r\nno colon\r\n", 400),
        (b"0\r\nA: \0\r\n", 400),
        (b"0\r\nA: b\n\r\n", 400),
        (b"0\r\n" + b"A: b\r\n" * 5000, 431),
        (b"1\r\na\r\n" * 4097, 413),
    ],
)
def test_a_bad_chunk(data: bytes, status: int | None) -> None:
    body = body_of(None)
    if status is None:
        assert body.take(bytearray(data)) == b""
        return
    with pytest.raises(WireError) as refusal:
        body.take(bytearray(data))
    assert refusal.value.status == status
