"""Whatever arrives gets the stated status, the one error body, and no echo."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from app.http.body import header_of
from app.http.schemas import Decoding, TranslateRequest
from tests.app.conftest import Serve
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio

CANARY = "zanzibar"
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def request_of(**fields: object) -> bytes:
    return json.dumps({"q": CANARY, "source": "en", "target": "fr"} | fields).encode()


def raw(fields: str) -> bytes:
    return b'{"q":"' + CANARY.encode() + b'","target":"fr",' + fields.encode() + b"}"


# `hostile.py` has further bodies, which are refused without naming a field.
CASES = {
    "surrogate": (request_of(q="\ud800" + CANARY), 422, "q"),
    "surrogate among texts": (request_of(q=["a", CANARY + "\udfff"]), 422, "q[1]"),
    "surrogate in a key": (raw('"\\ud800":1'), 422, None),
    "malformed": (b'{"q":', 422, None),
    "UTF-16 without mark": (request_of().decode().encode("utf-16-le"), 415, None),
    "UTF-32": (request_of().decode().encode("utf-32-be"), 415, None),
    "object": (request_of(q={CANARY: 1}), 422, "q"),
    "list in list": (request_of(q=["a", [CANARY]]), 422, "q[1]"),
    "missing": (b'{"q":"a"}', 422, "target"),
    "unknown field with a long name": (raw(f'"{CANARY}{"y" * 33}":1'), 422, None),
    "unknown decoding field": (request_of(decoding={f"{CANARY} ": 1}), 422, "decoding"),
    "nested duplicate key": (raw('"decoding":{"seed":1,"seed":2}'), 422, None),
    "huge seed": (request_of(decoding={"seed": 2**63}), 422, "decoding.seed"),
    "boolean for a number": (request_of(decoding={"beam_size": True}), 422, "decoding.beam_size"),
    "text for a number": (request_of(alternatives="1"), 422, "alternatives"),
    "fraction": (request_of(alternatives=1.5), 422, "alternatives"),
    "unknown strategy": (request_of(decoding={"strategy": CANARY}), 422, "decoding.strategy"),
    "contradiction": (request_of(decoding={"min_length": 9, "max_length": 3}), 422, "decoding.min_length"),
    "over the model": (request_of(decoding={"max_length": 65}), 422, "decoding.max_length"),
    "unknown format": (request_of(format=CANARY), 422, "format"),
    "unknown detail": (request_of(include=[CANARY]), 422, "include[0]"),
    "unknown target": (request_of(target=CANARY), 400, "target"),
    "unknown source": (request_of(source="xx"), 400, "source"),
    "script subtag": (request_of(target="zh-Hans"), 400, "target"),
    "unknown model": (request_of(model=CANARY), 400, "model"),
    "empty language": (request_of(target=""), 422, "target"),
    "too many characters": (request_of(q=["a", CANARY * 2000]), 413, "q[1]"),
}


def assert_refused(response: httpx.Response, status: int) -> dict[str, str]:
    assert response.status_code == status, response.text
    assert len(response.content) <= 2048
    assert CANARY not in response.text
    assert "None" not in response.text
    assert "/" not in response.json()["error"].replace("application/", "").replace("multipart/", "")
    body: dict[str, str] = response.json()
    assert body["request_id"] == response.headers["X-Request-ID"]
    assert set(body) <= {"error", "code", "field", "request_id"}
    return body


@pytest.mark.parametrize(("body", "status", "field"), CASES.values(), ids=CASES.keys())
async def test_a_bad_body_is_refused_by_field(
    client: httpx.AsyncClient, body: bytes, status: int, field: str | None
) -> None:
    response = await client.post("/translate", content=body, headers=JSON)
    assert assert_refused(response, status).get("field") == field


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json; charset=utf-16"},
        {"Content-Type": ""},
        {"Content-Type": "application/json" + "; a=b" * 60},
        {},
        JSON | {"Content-Encoding": "gzip"},
        JSON | {"Content-Encoding": "zstd"},
    ],
)
async def test_another_type_or_encoding_is_415(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    assert_refused(await client.post("/translate", content=request_of(), headers=headers), 415)


async def test_what_can_never_fit_is_not_read_to_its_end(
    serve: Serve, backend: DoubleBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, read = backend.tokenizer.encode, []

    def note(text: str, **options: str | None) -> list[int]:
        read.append(text)
        return encode(text, **options)

    async with serve(max_queued_tokens=20) as client:
        monkeypatch.setattr(backend.tokenizer, "encode", note)
        response = await client.post("/translate", content=request_of(q=[CANARY] * 100), headers=JSON)
    assert "MAX_QUEUED_TOKENS" in assert_refused(response, 413)["error"]
    assert len(read) == 11


@pytest.mark.parametrize("bad", [5, None, "\ud800", "a" * 10_001])
async def test_it_is_all_or_nothing(client: httpx.AsyncClient, backend: DoubleBackend, bad: object) -> None:
    response = await client.post("/translate", content=request_of(q=["good", bad, "good"]), headers=JSON)
    assert response.status_code in (413, 422)
    assert response.json()["field"] == "q[1]"
    assert backend.admitted == []


async def test_spellings_of_json_are_accepted(client: httpx.AsyncClient) -> None:
    for mark, content_type in (
        (b"", "application/json; charset=UTF-8"),
        (b"", "APPLICATION/JSON"),
        (b"\xef\xbb\xbf", "application/json"),
    ):
        headers = {"Content-Type": content_type}
        response = await client.post("/translate", content=mark + request_of(), headers=headers)
        assert response.status_code == 200


@pytest.mark.parametrize("alternatives", [True, "1", 1.0])
async def test_json_that_is_called_a_form_is_checked_as_json(
    client: httpx.AsyncClient, alternatives: object
) -> None:
    content = request_of(q="hi", alternatives=alternatives)
    assert_refused(await client.post("/translate", content=content, headers=FORM), 422)


async def test_a_form_that_is_not_utf8_is_refused(client: httpx.AsyncClient) -> None:
    assert_refused(await client.post("/translate", content=b"q=\xff&target=fr", headers=FORM), 400)


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ("q=%ff&target=fr", 400),
        ("q=a&target=fr&target=en", 422),
        ("q=a&target=fr&alternatives=many", 422),
        ("q=a", 422),
        (f"q=a&target=fr&{CANARY}!=1", 422),
        (f"q=a&target={CANARY}", 400),
        ("q=a&" * 300 + "target=fr", 413),
    ],
)
async def test_a_bad_form_is_refused_in_the_body_and_in_the_query(
    client: httpx.AsyncClient, form: str, status: int
) -> None:
    assert_refused(await client.post("/translate", content=form.encode(), headers=FORM), status)
    assert_refused(await client.post(f"/translate?{form}"), status)


FIGURES = {
    "alternatives": (request_of(alternatives=17), "17"),
    "beam": (request_of(decoding={"beam_size": 33}), "33"),
    "temperature": (request_of(decoding={"temperature": -0.5}), "-0.5"),
    "seed": (request_of(decoding={"seed": 10**31}), "1" + "0" * 31),
    "deadline": (request_of(timeout_ms=600_001), "600001"),
    "over the model": (request_of(decoding={"max_length": 65}), "65"),
    "details": (request_of(include=["scores"] * 5), "5"),
    "length of a code": (request_of(target="f" * 40), "40"),
}


@pytest.mark.parametrize(("body", "value"), FIGURES.values(), ids=FIGURES.keys())
async def test_a_refusal_names_the_limit_and_the_value(
    client: httpx.AsyncClient, body: bytes, value: str
) -> None:
    error = assert_refused(await client.post("/translate", content=body, headers=JSON), 422)["error"]
    assert re.search(rf"\d.*(?:but is|but has|not) {value}\b|: {value}, at most \d", error)


async def test_a_refusal_shows_no_long_number_and_no_key(client: httpx.AsyncClient) -> None:
    form = {"q": "a", "target": "fr", "alternatives": "9" * 4000}
    assert "9" * 33 not in assert_refused(await client.post("/translate", data=form), 422)["error"]
    spaced = form | {"alternatives": "0" * 4000 + "17"}
    assert "0" * 33 not in assert_refused(await client.post("/translate", data=spaced), 422)["error"]
    for key in (CANARY * 100, [CANARY], int("17" * 10)):
        content = request_of(api_key=key)
        refused = assert_refused(await client.post("/translate", content=content, headers=JSON), 422)
        assert "1717" not in refused["error"]


@pytest.mark.parametrize(
    ("path", "name", "limit", "most"),
    [("/translate", "q", "MAX_ITEMS", 256), ("/v2/translate", "text", "of texts", 50)],
)
@pytest.mark.parametrize("count", [257, 300])
async def test_too_many_texts_are_refused_alike_in_form_and_json(
    client: httpx.AsyncClient, path: str, name: str, limit: str, most: int, count: int
) -> None:
    form = await client.post(path, content=b"&".join([name.encode() + b"="] * count), headers=FORM)
    as_json = await client.post(path, json={name: [""] * count})
    for refused in (form, as_json):
        assert (refused.status_code, refused.json()["field"]) == (413, name)
        assert refused.json()["error"] == f"`{name}` is over the limit {limit}: {count}, at most {most}"


async def test_null_stands_for_a_field_that_is_not_sent(client: httpx.AsyncClient) -> None:
    optional = TranslateRequest.model_fields.keys() - {"q", "target"}
    nulls = dict.fromkeys(optional, None)
    for fields in (nulls, {"source": "en", "decoding": dict.fromkeys(Decoding.model_fields)}):
        body = {"q": "Where is the station?", "target": "fr", **fields}
        response = await client.post("/translate", json=body)
        assert response.json()["translatedText"] == "WHERE IS THE STATION?", response.text
    for name in ("q", "target"):
        response = await client.post("/translate", json={"q": "hi", "target": "fr", name: None})
        assert assert_refused(response, 422)["field"] == name
    assert (await client.post("/detect", json={"q": "hi", "api_key": None})).status_code == 200
    refused = await client.post("/translate", json={"q": "hi", "target": "fr", f"{CANARY}?": None})
    assert assert_refused(refused, 422)["code"] == "unknown_field"


UNKNOWN_FIELDS = [
    ("/translate", {"text": "Hi"}, "text", "the request has no field `text`; did you mean `q`?"),
    ("/v2/translate", {"input": "a"}, "input", "the request has no field `input`"),
    ("/translate", {"decoding": {"beamsize": 2}}, "decoding.beamsize",
     "`decoding` has no field `beamsize`; did you mean `beam_size`?"),
    ("/translate", {"x-1.y": 2}, "x-1.y", "the request has no field `x-1.y`"),
    ("/detect", {"a" * 40: 1}, "a" * 40, f"the request has no field `{'a' * 40}`"),
    ("/v2/translate", {"formalty": "more"}, "formalty",
     "the request has no field `formalty`; did you mean `formality`?"),
]  # fmt: skip
OTHER_TYPES = [
    ("/translate", {"q": 5}, "q", "`q`: input should be a string or a list of strings"),
    ("/v2/translate", {"text": 5}, "text", "`text`: input should be a string or a list of strings"),
    ("/translate", {"decoding": 5}, "decoding", "`decoding`: input should be an object"),
    ("/translate", {"glossary": {"boiler": "chaudière"}}, "glossary",
     "`glossary`: input should be a string or a list of objects with `source` and `target`"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "fields", "field", "message"), UNKNOWN_FIELDS + OTHER_TYPES)
async def test_a_wrong_field_is_named_with_what_it_should_be(
    client: httpx.AsyncClient, path: str, fields: dict[str, object], field: str, message: str
) -> None:
    needed = {"/translate": {"q": "a", "target": "fr"}, "/detect": {"q": "a"}}
    body = needed.get(path, {"text": ["a"], "target_lang": "FR"}) | fields
    error = (await client.post(path, json=body)).json()
    code = "unknown_field" if "has no field" in message else "invalid_field"
    assert (error["code"], error["field"], error["error"]) == (code, field, message)


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("traget=fr", {"json": {"q": "a", "target": "fr"}}),
        ("traget=fr", {"data": {"q": "a", "target": "fr"}}),
        ("q=a&traget=fr", {}),
        ("", {"data": {"q": "a", "traget": "fr"}}),
        ("", {"files": {"q": (None, "a"), "traget": (None, "fr")}}),
    ],
)
async def test_an_unknown_field_is_named_wherever_it_stands(
    client: httpx.AsyncClient, query: str, body: dict[str, Any]
) -> None:
    error = (await client.post(f"/translate?{query}", **body)).json()
    assert (error["code"], error["field"]) == ("unknown_field", "traget")
    assert "did you mean `target`?" in error["error"]


async def test_a_form_may_hold_everything(client: httpx.AsyncClient) -> None:
    fields = {
        "q": ["hello you", "good bye"],
        "source": "en",
        "target": "fr",
        "api_key": "",
        "alternatives": "1",
        "decoding": '{"beam_size": 2}',
        "include": ["scores", "tokens"],
    }
    response = await client.post("/translate", data=fields)
    assert response.status_code == 200
    assert response.json()["translatedText"] == ["HELLO YOU", "GOOD BYE"]
    assert response.json()["details"][0]["scores"] == [-0.5]


@pytest.mark.parametrize("headers", [{}, FORM, JSON])
async def test_the_query_stands_for_an_empty_body(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    fields = {"q": "où & là + 1 %", "source": "en", "target": "fr", "format": "text", "alternatives": "1"}
    response = await client.post("/translate", params=fields, headers=headers)
    assert response.json()["translatedText"] == "OÙ & LÀ + 1 %"
    assert len(response.json()["alternatives"]) == 1
    several = await client.post("/translate?q=a&q=b&source=en&target=fr", headers=headers)
    assert several.json()["translatedText"] == ["A", "B"]
    detected = await client.post("/detect", params={"q": "Où est la gare ?"}, headers=headers)
    assert detected.json()[0]["language"] == "fr"


async def test_a_body_that_is_not_empty_counts_alone(client: httpx.AsyncClient) -> None:
    query = "/translate?q=b&target=fr"
    response = await client.post(query, content=request_of(q="hi"), headers=JSON)
    assert response.json()["translatedText"] == "HI"
    assert_refused(await client.post(query, data={"q": "a"}), 422)
    assert_refused(await client.post(query, content=b"hi"), 415)
    assert (await client.post("/v2/translate?text=a&target_lang=FR")).status_code == 415


async def test_a_body_is_refused_at_its_first_excess_byte(serve: Serve) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 512
            yield b"a" * 512
            assert sent < 2**26

    async with serve(max_body_bytes=1024) as client:
        declared = await client.post("/translate", content=b"a" * 1025, headers=JSON)
        streamed = await client.post("/translate", content=_cut(endless(), 3000), headers=JSON)
    assert assert_refused(declared, 413)["error"].endswith("MAX_BODY_BYTES: 1025, at most 1024 bytes")
    assert_refused(streamed, 413)


async def _cut(chunks: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        yield chunk
        size -= len(chunk)
        if size <= 0:
            return


def test_of_a_field_that_comes_twice_the_first_value_counts() -> None:
    scope = {"headers": [(b"accept", b"text/html"), (b"accept", b"*/*")]}
    assert header_of(scope, b"accept") == "text/html"
    assert header_of(scope, b"accept-language", "none") == "none"
