"""Whatever bytes come as a body, they become values or one of our refusals; nothing else is ever raised."""

import asyncio
import json
from urllib.parse import quote_from_bytes, urlencode

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.types import Message

from app.http.body import FORM, JSON, Values, read_body
from app.http.errors import RequestError
from app.http.receiving import validate
from app.http.schemas import DetectRequest, TranslateRequest

ANY_TEXT = st.text(max_size=20) | st.text(
    st.characters(categories=["Cs", "Cf", "Mn", "Cc", "Cn"]), max_size=10
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=8,
)
NAMES = st.sampled_from([*TranslateRequest.model_fields, "unknown"])
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=6)
PIECES = st.sampled_from(
    [
        *(b"{", b"}", b"[", b"]", b'"', b":", b",", b'"q"', b'"target"', b'"en"', b"1e999", b"NaN", b"-"),
        *(b"\\ud800", b"\\", b"\xff", b"\xed\xa0\x80", b"\0", b"\xef\xbb\xbf", b"\xff\xfe", b" "),
        *(b"q=", b"&", b"%", b"%ff", b"+"),
    ]
)
TYPES = st.sampled_from([JSON, FORM, f"{JSON}; charset=utf-8", f"{FORM};charset=UTF-8", f'{JSON}; charset="'])


def read(data: bytes, content_type: str = JSON) -> tuple[Values, bool]:
    """A body that comes in two parts."""
    middle = len(data) // 2
    parts: list[Message] = [
        {"type": "http.request", "body": data[:middle], "more_body": True},
        {"type": "http.request", "body": data[middle:]},
    ]

    async def receive() -> Message:
        return parts.pop(0)

    headers = [(b"content-type", content_type.encode("latin-1"))]
    request = Request({"type": "http", "headers": headers}, receive)
    body = asyncio.run(read_body(request, max_bytes=4096, max_items=20))
    assert body.size == len(data)
    return body.values, body.is_form


def assert_orderly(body: bytes, content_type: str) -> None:
    """Nothing but a request or a refusal comes of it, and the refusal is in our own words."""
    refusal = refused(body, content_type)
    if refusal is not None:
        assert refusal.status in (400, 413, 415, 422)
        assert f"{refusal} {refusal.field}".isascii()


def refused(body: bytes, content_type: str) -> RequestError | None:
    try:
        values, as_form = read(body, content_type)
        for schema in (TranslateRequest, DetectRequest):
            validate(schema, values, is_form=as_form)
    except RequestError as refusal:
        return refusal
    return None


@settings(max_examples=300)
@given(st.binary(max_size=100) | st.lists(PIECES, max_size=20).map(b"".join), TYPES)
def test_any_bytes(body: bytes, content_type: str) -> None:
    assert_orderly(body, content_type)


@settings(max_examples=200)
@given(OBJECTS | VALUES)
def test_any_json(value: object) -> None:
    assert_orderly(json.dumps(value).encode(), JSON)


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(NAMES, st.binary(max_size=20) | st.sampled_from([b"{}", b'{"seed":1}', b"3"])), max_size=30
    )
)
def test_any_form(fields: list[tuple[str, bytes]]) -> None:
    body = "&".join(f"{name}={quote_from_bytes(value)}" for name, value in fields)
    assert_orderly(body.encode(), FORM)


@settings(max_examples=50)
@given(st.binary(max_size=40).map(lambda data: data.decode("latin-1")))
@example("application/json; charset*=utf-8''%ff")
@example("application/json; charset=\x00")
def test_any_content_type(content_type: str) -> None:
    assert_orderly(b'{"q":"a","target":"fr"}', content_type)


@settings(max_examples=100)
@given(st.dictionaries(NAMES, st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=5))
def test_what_json_says_is_what_is_read(fields: dict[str, str]) -> None:
    assert read(json.dumps(fields).encode()) == (fields, False)
    assert read(json.dumps(fields, ensure_ascii=False).encode()) == (fields, False)


@settings(max_examples=100)
@given(st.dictionaries(NAMES, st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=5))
def test_json_that_is_called_a_form_is_read_as_json(fields: dict[str, str]) -> None:
    assert read(json.dumps(fields).encode(), FORM) == (fields, False)


@settings(max_examples=100)
@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.sampled_from(["q", "model", "api_key"])
)
def test_what_a_form_says_is_what_is_read(text: str, name: str) -> None:
    expected = {name: text} if text or name == "q" else {}
    assert read(urlencode({name: text}).encode(), FORM) == (expected, True)


@pytest.mark.parametrize("body", [b'{"q":"a","q":"b"}', b'{"a":{"b":1,"b":2}}', b'{"q":"a","\\u0071":"b"}'])
def test_no_key_counts_twice(body: bytes) -> None:
    with pytest.raises(RequestError):
        read(body)
