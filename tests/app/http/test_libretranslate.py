"""What LibreTranslate's clients also call: a page's settings, suggestions, the document, multipart bodies."""

import json
import stat
from pathlib import Path

import httpx
import pytest

from tests.app.conftest import Serve
from tests.app.double import write_keys
from tests.full_disk import largest_file

pytestmark = pytest.mark.anyio
SUGGESTION = {"q": "one", "s": "un", "source": "en", "target": "fr"}


async def test_a_page_learns_what_it_needs(serve: Serve, tmp_path: Path) -> None:
    async with serve(max_chars=500, api_keys_file=write_keys(tmp_path, ali="sesame")) as client:
        found = (await client.get("/frontend/settings")).json()
    assert (found["apiKeys"], found["keyRequired"], found["charLimit"]) == (True, True, 500)
    assert found["suggestions"] is False
    assert found["language"] == {
        "source": {"code": "auto", "name": "Auto Detect"},
        "target": {"code": "fr", "name": "French"},
    }


async def test_suggestions_are_refused_by_default(client: httpx.AsyncClient) -> None:
    refused = await client.post("/suggest", data=SUGGESTION)
    assert (refused.status_code, refused.json()["code"]) == (403, "suggestions_disabled")
    unknown = await client.post("/suggest", json=SUGGESTION | {"targt": "fr"})
    assert (unknown.status_code, unknown.json()["field"]) == (422, "targt")
    assert "`target`" in unknown.json()["error"]


async def test_suggestions_are_kept_in_a_private_file(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "suggestions.jsonl"
    async with serve(suggestions_file=path, max_chars=20) as client:
        others = {"s": 'une\n"é"', "target": "FR"}, {"source": "Auto"}
        for body in (SUGGESTION, *(SUGGESTION | other for other in others)):
            assert (await client.post("/suggest", json=body)).json() == {"success": True}
        assert (await client.post("/suggest", json=SUGGESTION | {"target": "xx"})).status_code == 400
        assert (await client.post("/suggest", json=SUGGESTION | {"s": "a" * 21})).status_code == 413
        for field in ("q", "s"):
            empty = await client.post("/suggest", json=SUGGESTION | {field: ""})
            assert (empty.status_code, empty.json()["field"]) == (422, field)
    kept = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert kept == [SUGGESTION, SUGGESTION | {"s": 'une\n"é"'}, SUGGESTION | {"source": "auto"}]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_suggestion_that_a_full_disk_cuts_short_is_refused(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "suggestions.jsonl"
    async with serve(suggestions_file=path) as client:
        path.touch()
        with largest_file(30):
            answer = await client.post("/suggest", json=SUGGESTION)
    assert (answer.status_code, answer.json()["code"]) == (503, "overloaded")


async def test_the_document_under_its_other_name(client: httpx.AsyncClient) -> None:
    assert (await client.get("/spec")).json() == (await client.get("/openapi.json")).json()


async def test_multipart_bodies_are_forms(client: httpx.AsyncClient) -> None:
    fields = {"q": (None, "où est-ce"), "source": (None, "fr"), "target": (None, "en")}
    answer = await client.post("/translate", files=fields)
    assert answer.json()["translatedText"] == "OÙ EST-CE"
    several = [("q", (None, "one")), ("q", (None, "two")), *list(fields.items())[1:]]
    assert (await client.post("/translate", files=several)).json()["translatedText"] == ["ONE", "TWO"]
    assert (await client.post("/detect", files={"q": (None, "Où est la gare ?")})).json()[0][
        "language"
    ] == "fr"


async def test_multipart_bodies_have_the_limits_of_others(serve: Serve, tmp_path: Path) -> None:
    keys = write_keys(tmp_path, ali="sesame")
    async with serve(max_body_bytes=2048, max_items=3, api_keys_file=keys) as client:
        form = {"source": (None, "en"), "target": (None, "fr"), "api_key": (None, "sesame")}
        assert (await client.post("/translate", files={"q": (None, "a"), **form})).status_code == 200
        assert (await client.post("/translate", files={"q": (None, "a")})).status_code == 401
        key = {"Authorization": "Bearer sesame"}
        large = await client.post("/translate", files={"q": (None, "a" * 3000), **form}, headers=key)
        assert large.json()["code"] == "body_too_large"
        many = [("q", (None, "a"))] * 4 + list(form.items())
        assert (await client.post("/translate", files=many)).json()["code"] == "too_many_items"
        unknown = await client.post("/translate", files={"q": (None, "a"), "taget": (None, "fr"), **form})
        assert "`target`" in unknown.json()["error"]
