"""DeepL's paths beyond what its Python package sends: forms, other spellings, bodies of errors, accounts."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from app.http.deepl.schemas import UNSUPPORTED
from tests.app.conftest import Serve
from tests.app.double import DoubleBackend, write_keys

pytestmark = pytest.mark.anyio
REQUEST = {"text": ["one two"], "source_lang": "EN", "target_lang": "FR"}


async def test_the_answer(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v2/translate", json=REQUEST)
    assert answer.json() == {
        "translations": [
            {
                "detected_source_language": "EN",
                "text": "ONE TWO",
                "model": "tiny",
                "model_version": "1+cccccccc",
            }
        ]
    }


async def test_forms(client: httpx.AsyncClient) -> None:
    """As in DeepL's examples for curl: `-d text=… -d text=…`."""
    form = {
        "text": ["one", "", "two"],
        "target_lang": "fr",
        "source_lang": "",
        "show_billed_characters": "1",
        "preserve_formatting": "0",
        "split_sentences": "nonewlines",
    }
    translations = (await client.post("/v2/translate", data=form)).json()["translations"]
    assert [each["text"] for each in translations] == ["ONE", "", "TWO"]
    assert [each["billed_characters"] for each in translations] == [3, 0, 3]
    one = await client.post("/v2/translate", data={"text": "one", "target_lang": "FR"})
    assert one.json()["translations"][0]["text"] == "ONE"


async def test_null_counts_as_absent(client: httpx.AsyncClient) -> None:
    nulls = dict.fromkeys([*UNSUPPORTED, "source_lang", "formality", "tag_handling", "model_type", "context"])
    answer = await client.post("/v2/translate", json=REQUEST | nulls)
    assert answer.json()["translations"][0]["text"] == "ONE TWO"


@pytest.mark.parametrize(("off", "split"), [(0, "0"), ("0", 0), (False, 0)])
async def test_spellings_of_switches(client: httpx.AsyncClient, off: object, split: object) -> None:
    wishes = {"show_billed_characters": off, "preserve_formatting": off, "split_sentences": split}
    answer = await client.post("/v2/translate", json=REQUEST | wishes | {"text": "one\ntwo"})
    assert answer.json()["translations"][0]["text"] == "ONE TWO"
    assert "billed_characters" not in answer.json()["translations"][0]


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"text": ["one", 2]}, "text[1]"),
        ({"text": None}, "text"),
        ({"text": {"a": 1}}, "text"),
        ({"target_lang": ["FR"]}, "target_lang"),
        ({"split_sentences": True}, "split_sentences"),
        ({"show_billed_characters": "perhaps"}, "show_billed_characters"),
        ({"formality": ["more"]}, "formality"),
        ({"style_id": "x"}, "style_id"),
        ({"outline_detection": 0}, "outline_detection"),
    ],
)
async def test_a_wrong_field_is_a_400_that_names_it(
    client: httpx.AsyncClient, wish: dict[str, object], field: str
) -> None:
    answer = await client.post("/v2/translate", json=REQUEST | wish)
    body = answer.json()
    assert (answer.status_code, body["field"]) == (400, field)
    assert body["message"] == body["error"]
    assert set(body) == {"error", "message", "code", "field", "request_id"}


@pytest.mark.parametrize("path", ["/v2/translate", "/v2/write/rephrase", "/v3/glossaries"])
async def test_every_error_has_both_shapes_and_those_of_other_paths_one(
    client: httpx.AsyncClient, path: str
) -> None:
    for answer in (await client.post(path, content=b"x"), await client.delete(path)):
        body = answer.json()
        assert body["message"] == body["error"]
        assert body["request_id"] == answer.headers["X-Request-ID"]
    assert "message" not in (await client.post("/translate", json={"q": 1, "target": "fr"})).json()


async def test_languages_by_query_form_and_method(client: httpx.AsyncClient) -> None:
    sources = (await client.get("/v2/languages")).json()
    assert sources == [{"language": "EN", "name": "English"}, {"language": "FR", "name": "French"}]
    targets = (await client.get("/v2/languages?type=target")).json()
    assert targets[-1] == {"language": "FR", "name": "French", "supports_formality": False}
    assert (await client.request("GET", "/v2/languages", data={"type": "target"})).json() == targets
    assert (await client.post("/v2/languages", data={"type": "target"})).json() == targets
    assert (await client.post("/v2/languages")).json() == sources
    json = {"Content-Type": "application/json"}
    assert (await client.get("/v2/languages?type=target", headers=json)).json() == targets, "without a body"
    assert (await client.get("/v2/languages?type=all")).json()["field"] == "type"


async def test_a_list_that_is_asked_for_with_a_body_needs_room_for_it(serve: Serve) -> None:
    """As every body does: what is held of them all has a bound."""
    async with serve(max_body_bytes=1024, max_held_bytes=1500) as client:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            begun.set()
            yield b"type="
            await go_on.wait()
            yield b"target"

        form = {"Content-Type": "application/x-www-form-urlencoded"}
        first = asyncio.create_task(client.post("/v2/languages", content=slow(), headers=form))
        await begun.wait()
        second = await client.post("/v2/languages", data={"type": "target", "more": "a" * 600})
        assert (second.status_code, second.json()["code"]) == (503, "overloaded")
        go_on.set()
        assert (await first).status_code == 200
        assert (await client.post("/v2/languages", data={"type": "target"})).status_code == 200


async def test_only_what_is_written_is_a_target(serve: Serve) -> None:
    double = DoubleBackend(("one", (("de", "pt"), ("zh", "pt"))))
    async with serve(double) as client:
        assert [each["language"] for each in (await client.get("/v2/languages")).json()] == ["DE", "ZH"]
        targets = (await client.get("/v2/languages?type=target")).json()
        assert [each["language"] for each in targets] == ["PT-BR", "PT-PT"]
        for source in ("ZH", "zh-hans", "DE"):
            request = {"text": "one", "source_lang": source, "target_lang": "PT-BR"}
            (translation,) = (await client.post("/v2/translate", json=request)).json()["translations"]
            assert translation["text"] == "ONE"
            assert translation["detected_source_language"] == source[:2].upper()


async def test_keys(serve: Serve, tmp_path: Path) -> None:
    async with serve(api_keys_file=write_keys(tmp_path, ali="sesame")) as client:
        for scheme in ("DeepL-Auth-Key", "deepl-auth-key", "Bearer"):
            headers = {"Authorization": f"{scheme} sesame"}
            assert (await client.post("/v2/translate", json=REQUEST, headers=headers)).status_code == 200
            assert (await client.get("/v2/languages", headers=headers)).status_code == 200
        for headers, status in (({}, 401), ({"Authorization": "DeepL-Auth-Key wrong"}, 403)):
            for path in ("languages", "usage", "glossary-language-pairs"):
                refused = await client.get(f"/v2/{path}", headers=headers)
                assert (refused.status_code, "message" in refused.json()) == (status, True)
        missing = (await client.post("/v2/translate", json=REQUEST)).json()["message"]
        assert missing == "an API key is required: `Authorization: DeepL-Auth-Key KEY`"


async def test_usage_counts_what_was_answered(client: httpx.AsyncClient) -> None:
    await client.post("/v2/translate", json=REQUEST | {"text": ["one two", "", "3"]})
    await client.post("/v2/translate", json=REQUEST | {"target_lang": "DE"})
    assert (await client.get("/v2/usage")).json() == {"character_count": 8, "character_limit": 10**12}
    assert (await client.post("/v2/usage")).json()["character_count"] == 8


async def test_its_paths_are_measured_and_its_refusals_counted(client: httpx.AsyncClient) -> None:
    await client.post("/v2/translate", json=REQUEST | {"style_id": "x"})
    await client.get("/v2/usage")
    samples = (await client.get("/metrics")).text
    assert 'dragoman_requests_total{endpoint="/v2/translate",status="400"} 1.0' in samples
    assert 'dragoman_requests_total{endpoint="/v2/usage",status="200"} 1.0' in samples
    assert 'dragoman_rejected_total{reason="unsupported_request"} 1.0' in samples


async def test_the_kind_of_model_is_the_kind_of_search(
    client: httpx.AsyncClient, backend: DoubleBackend
) -> None:
    for kind in ("latency_optimized", "quality_optimized"):
        await client.post("/v2/translate", json=REQUEST | {"model_type": kind})
    await client.post("/v2/translate", json=REQUEST)
    searches = [request.options.strategy for request in backend.admitted]
    assert searches == ["greedy", "beam", "beam"]


@pytest.mark.parametrize("names", [["X", "ph"], "x,ph", "ph , x"])
async def test_names_of_tags_may_have_space_around_them(client: httpx.AsyncClient, names: object) -> None:
    wish = {"text": "one <x>two</x> <ph>three</ph>", "tag_handling": "xml", "ignore_tags": names}
    (translation,) = (await client.post("/v2/translate", json=REQUEST | wish)).json()["translations"]
    assert translation["text"] == "ONE <x>two</x> <ph>three</ph>"


@pytest.mark.parametrize("names", [["a"] * 101, "a," * 300_000])
async def test_only_so_many_tags_can_be_ignored(client: httpx.AsyncClient, names: object) -> None:
    answer = await client.post("/v2/translate", json=REQUEST | {"tag_handling": "xml", "ignore_tags": names})
    assert (answer.status_code, answer.json()["field"]) == (400, "ignore_tags")


async def test_context_is_said_not_to_be_used(client: httpx.AsyncClient) -> None:
    body = {"text": ["one"], "target_lang": "FR", "source_lang": "EN"}
    (told,) = (await client.post("/v2/translate", json=body | {"context": "before"})).json()["translations"]
    assert told["context_used"] is False
    (plain,) = (await client.post("/v2/translate", json=body)).json()["translations"]
    assert "context_used" not in plain


async def test_a_wrong_field_of_the_list_of_languages_is_named(client: httpx.AsyncClient) -> None:
    refused = await client.get("/v2/languages?typ=target")
    assert (refused.status_code, refused.json()["field"]) == (400, "typ")
    assert "did you mean `type`?" in refused.json()["message"]
