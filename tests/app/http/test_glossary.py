"""Glossaries in POST /translate, with a backend that gives every word back in capitals."""

import re
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from app.translation.glossary_store import GlossaryStore
from model.errors import InputError
from model.text.glossary import Glossary
from tests.app.conftest import Serve
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio
CAT = {"source": "cat", "target": "chat"}
DOG = {"source": "dog", "target": "chien"}


async def translate(client: httpx.AsyncClient, **fields: object) -> httpx.Response:
    return await client.post("/translate", json={"source": "en", "target": "fr"} | fields)


async def test_terms_are_read_as_their_translations_and_required(
    client: httpx.AsyncClient, backend: DoubleBackend
) -> None:
    response = await translate(client, q=["the cat", "a bird"], glossary=[CAT, DOG])
    assert response.json() == {
        "translatedText": ["THE CHAT", "A BIRD"],
        "model": "tiny",
        "model_version": "1+cccccccc",
    }
    first, second = backend.admitted
    words = [[backend.tokenizer.source_pieces(ids) for ids in phrase] for phrase in first.phrases]
    assert words == [[["chat"], ["Chat"]]]
    assert (first.options.rows, second.phrases) == (4, ())


async def test_terms_that_a_translation_lacks_are_named(
    client: httpx.AsyncClient, backend: DoubleBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(ids: Sequence[int]) -> str:
        return " ".join(word for word in backend.tokenizer.pieces(ids) if word != "CHAT")

    monkeypatch.setattr(backend.tokenizer, "decode", decode)
    one = (await translate(client, q="a cat and a dog", glossary=[CAT, DOG])).json()
    assert one["missing_terms"] == [CAT]
    monkeypatch.setattr(backend.tokenizer, "decode", lambda ids: "CHAT")
    assert (await translate(client, q="cat and cat", glossary=[CAT])).json()["missing_terms"] == [CAT]
    monkeypatch.setattr(backend.tokenizer, "decode", decode)
    several = (await translate(client, q=["a dog", "a cat"], glossary=[CAT, DOG])).json()
    assert several["missing_terms"] == [[], [CAT]]
    deepl = {"text": "a cat", "source_lang": "EN", "target_lang": "FR"}
    assert "missing_terms" not in (await client.post("/v2/translate", json=deepl)).text


async def test_terms_hold_through_another_language(serve: Serve) -> None:
    backend = DoubleBackend(("de-en", (("de", "en"),)), ("en-fr", (("en", "fr"),)))
    async with serve(backend) as client:
        glossary = [{"source": "Katze", "target": "chat"}]
        answer = await translate(client, q="Katze da", source="de", glossary=glossary)
    assert answer.json()["translatedText"] == "CHAT DA"
    assert [len(request.phrases) for request in backend.admitted] == [1, 1]


@pytest.mark.parametrize(
    ("glossary", "status", "field", "problem"),
    [
        ([], 422, "glossary", "at least 1 item, but has 0"),
        ([CAT] * 501, 422, "glossary", "at most 500 items, but has 501"),
        ([CAT, {"source": "a"}], 422, "glossary[1].target", "required"),
        ([CAT, {"source": "", "target": "b"}], 422, "glossary[1].source", "at least 1 character, but has 0"),
        ([{"source": "a", "target": "b" * 201}], 422, "glossary[0].target", "at most 200 .* but has 201"),
        ([CAT | {"traget": "b"}], 422, "glossary[0].traget", "`glossary\\[0\\]` has no field `traget`"),
        ([CAT, CAT | {"target": "b"}], 400, "glossary", "the term of entry 2 has another translation"),
        ("", 422, "glossary", "at least 1 character, but has 0"),
        ("ours", 404, "glossary", "there is no such glossary"),
        (7, 422, "glossary", "string"),
    ],
)
async def test_a_glossary_that_is_none_is_refused(
    client: httpx.AsyncClient, glossary: object, status: int, field: str, problem: str
) -> None:
    response = await translate(client, q="one", glossary=glossary)
    body = response.json()
    assert (response.status_code, body["field"]) == (status, field)
    assert re.search(problem, body["error"])


async def test_a_stored_glossary_is_named(serve: Serve, tmp_path: Path) -> None:
    """Every process reads the folder, so that one sees at once what another has stored."""
    store = GlossaryStore(tmp_path)
    async with serve(glossary_folder=tmp_path) as client:
        stored = store.create("address:x", "ours", {("en", "fr"): Glossary({"cat": "chat"})})
        for name in ("ours", stored.id):
            assert (await translate(client, q="a cat", glossary=name)).json()["translatedText"] == "A CHAT"
        store.change("address:x", stored.id, dictionaries={("en", "fr"): Glossary({"cat": "minou"})})
        assert (await translate(client, q="a cat", glossary="ours")).json()["translatedText"] == "A MINOU"
        form = await client.post("/translate", data={"q": "a cat", "target": "fr", "glossary": "ours"})
        assert form.json()["translatedText"] == "A MINOU"
        other = await translate(client, q="un", source="fr", target="en", glossary="ours")
        assert (other.status_code, other.json()["field"]) == (400, "glossary")
        assert "no entries from fr to en" in other.json()["error"]
        store.delete("address:x", stored.id)
        assert (await translate(client, q="a cat", glossary="ours")).status_code == 404


def test_the_number_of_glossaries_is_bounded_by_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.translation.glossary_store.MAX_GLOSSARIES", 1)
    store, terms = GlossaryStore(tmp_path), {("en", "fr"): Glossary({"cat": "chat"})}
    store.create("key:ali", "one", terms)
    with pytest.raises(InputError, match="at most 1 glossaries, and there are 1"):
        store.create("key:ali", "two", terms)
    store.create("key:gimli", "one", terms)
    assert [each.owner for each in store.all("key:gimli")] == ["gimli"]
    assert store.all("address:x") == []
