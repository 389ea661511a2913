"""Whatever bytes come as a body, they become values or one of our refusals; nothing else is ever raised.

JSON that costs more than its bytes is refused; forms are read as `urllib.parse` reads them, in far less time.
"""

import json
from urllib.parse import parse_qsl, quote_from_bytes, urlencode

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.types import Message

from app.http.body import FORM, JSON, Values, parse_form, parse_object, read_body
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
    reading = read_body(request, max_bytes=4096, limit_name="MAX_BODY_BYTES", max_items=20)
    try:
        reading.send(None)  # nothing is waited for, so that no event loop is needed
    except StopIteration as end:
        body = end.value
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


@settings(max_examples=200)
@given(st.binary(max_size=100) | st.lists(PIECES, max_size=20).map(b"".join), TYPES)
def test_any_bytes(body: bytes, content_type: str) -> None:
    assert_orderly(body, content_type)


@settings(max_examples=100)
@given(OBJECTS | VALUES)
def test_any_json(value: object) -> None:
    assert_orderly(json.dumps(value).encode(), JSON)


@settings(max_examples=100)
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
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        st.integers(-(10**20), 10**20)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
        | st.none(),
        max_size=5,
    ),
    st.booleans(),
    st.sampled_from([JSON, FORM]),
)
def test_what_json_says_is_what_is_read(fields: Values, is_ascii: bool, content_type: str) -> None:
    """Also if it is called a form, as by curl."""
    assert read(json.dumps(fields, ensure_ascii=is_ascii).encode(), content_type) == (fields, False)


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


KEYS = ",".join(f'"k{i}":"v"' for i in range(100_000))


def crowd(value: str, count: int) -> str:
    return f'{{"q":[{",".join([value] * count)}]}}'


CROWDS = {
    "keys": f"{{{KEYS}}}",
    "inner keys": f'{{"decoding":{{{KEYS}}}}}',
    "objects": crowd("{}", 300_000),
    "objects with something in them": crowd('{"a":"b"}', 100_000),
    "whole numbers": crowd("1", 500_000),
    "fractions": crowd("1.5", 250_000),
    "numbers in lists": crowd("[1]", 250_000),
}


@pytest.mark.parametrize("text", CROWDS.values(), ids=CROWDS)
def test_a_crowd_is_refused_for_being_one(text: str) -> None:
    """Before all its faults are listed, which takes a second."""
    with pytest.raises(RequestError, match=r"too many (keys|objects and numbers)") as refusal:
        parse_object(text)
    assert (refusal.value.status, refusal.value.code) == (422, "invalid_body")


def test_many_texts_are_no_crowd() -> None:
    value = {"q": [f"{{[number {i}], }}" for i in range(5000)], "alternatives": 3}
    assert parse_object(json.dumps(value)) == value


def test_one_crowd_does_not_count_against_the_next() -> None:
    body = json.dumps({"q": [","] * 2000, "decoding": {"seed": 1}})
    for _ in range(1000):
        assert parse_object(body)["decoding"] == {"seed": 1}


ESCAPES = st.sampled_from(
    [
        *("%", "%4", "%41", "%3d", "%3D", "%26", "%2B", "%C3%A9", "%zz", "=", "&", "+", " ", "\n", "\r\n"),
        *("\t", "é", "_", ".", "q", "\0", "🙂", "%0A", "%20"),
    ]
)


@settings(max_examples=300)
@given(st.lists(ESCAPES, max_size=12).map("".join))
@example("a=%\nb")
@example("a=b \n")
@example("a=b&a")
def test_escapes_mean_what_they_mean_elsewhere(text: str) -> None:
    expected = dict(parse_qsl(text))
    try:
        found = parse_form(text.encode(), 100)
    except RequestError as refusal:
        assert str(refusal) == "the form holds the same field twice"  # noqa: PT017
        return
    assert {name: found[name] for name in found if name != "q"} == {
        name: value for name, value in expected.items() if name != "q"
    }


@pytest.mark.parametrize(
    "body",
    [b"q=" + b"%41" * 340_000, b"q=" + b"%" * 1_000_000, b"q=" + b"+" * 1_000_000, b"q=" + b"=" * 1_000_000],
)
def test_a_megabyte_of_escapes_means_what_it_means_elsewhere(body: bytes) -> None:
    assert parse_form(body, 256) == dict(parse_qsl(body.decode()))


@pytest.mark.parametrize("value", ["x", "[]", '{"seed":1,"seed":2}', '{"seed":NaN}', "[" * 5000 + "]"])
def test_a_field_that_should_hold_json_is_named_where_it_does_not(value: str) -> None:
    with pytest.raises(RequestError, match=r"^`decoding`: input should be a JSON object$") as refusal:
        parse_form(f"q=a&decoding={value}".encode(), 256)
    assert (refusal.value.code, refusal.value.field) == ("invalid_field", "decoding")


def test_there_are_only_so_many_fields() -> None:
    with pytest.raises(RequestError) as crowd:
        parse_form(b"&".join(b"a%d=1" % i for i in range(200)), 256)
    assert crowd.value.status == 422
    with pytest.raises(RequestError, match=r"too many fields: 400, at most 288$") as crowd:
        parse_form(b"&".join([b"q=a"] * 200 + [b"include=x"] * 200), 256)
    assert (crowd.value.code, crowd.value.field) == ("invalid_body", None)
