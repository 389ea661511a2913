"""Any text, through a real network: what may come back, and what must."""

import asyncio
import unicodedata
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import TypeVar

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.app.conftest import application, serving

Result = TypeVar("Result")
FOREIGN = {
    "Chinese": "你好，世界。",
    "Arabic": "مرحبا بالعالم",
    "Russian": "Привет, как дела?",
    "marks": "a" + "\u0301" * 500,
    "a ligature that grows": "\ufdfa" * 500,
    "pictures": "🙂👩‍👩‍👧‍👦 🏳️‍🌈",
}


class Service:
    """A service and its client, on an event loop that outlives a test's examples."""

    def __init__(self, checkpoint: Path) -> None:
        self._runner = asyncio.Runner()
        self._serving = serving(application(checkpoint, request_timeout_ms=60_000))
        self._client = self.run(self._serving.__aenter__())

    def translate(self, q: object, **fields: object) -> httpx.Response:
        request = {"q": q, "source": "en", "target": "fr"} | fields
        return self.run(self._client.post("/translate", json=request))

    def run(self, work: Coroutine[object, object, Result]) -> Result:
        return self._runner.run(work)

    def close(self) -> None:
        self.run(self._serving.__aexit__(None, None, None))
        self._runner.close()


@pytest.fixture(scope="module")
def service(tiny_checkpoint: Path) -> Iterator[Service]:
    service = Service(tiny_checkpoint)
    yield service
    service.close()


def controls(text: str) -> set[str]:
    return {character for character in text if unicodedata.category(character) == "Cc"}


@pytest.mark.parametrize("form", ["text", "html"])
@given(
    text=st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("ab \0\x07\x1b\x85\ufeff<&;#"))
)
@example(text="Thank you.\0\x1b[31m The cat\x07 sleeps.\x85\r\n\ufeff\uffff Good\x7fmorning.")
@example(text="Thank you.&#27;&#129; The cat&#7; sleeps.&Tab;&NewLine;x&#0;")
def test_no_control_character_comes_out_that_did_not_go_in(service: Service, form: str, text: str) -> None:
    response = service.translate(text, format=form)
    if response.status_code == 413:  # many characters that are spelt in bytes
        assert response.json()["code"] == "text_too_long"
        return
    assert response.status_code == 200
    assert controls(response.json()["translatedText"]) <= controls(text)


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
def test_what_cannot_be_spelt_comes_back_as_it_is_however_long(service: Service, text: str) -> None:
    for repeated in (text, text * 12):
        body = service.translate(repeated).json()
        assert (body["translatedText"], body["model"]) == (repeated, None)


def test_what_can_be_spelt_around_it_is_translated(service: Service) -> None:
    text = f"Thank you. {FOREIGN['Russian']}\n{FOREIGN['marks']}\n🙂 Good morning."
    translated = service.translate(text).json()["translatedText"]
    assert translated == f"Merci. {FOREIGN['Russian']}\n{FOREIGN['marks']}\n🙂 Bonjour."


def test_a_text_without_stops_is_translated(service: Service) -> None:
    response = service.translate("the cat 你 sleeps " * 30)
    assert response.status_code == 200


@pytest.mark.parametrize("typed", ["<s>", "</s>", "▁", "<pad>", "<unk>", "<2en>", "<2fr>", "<0x0A>"])
def test_a_special_token_that_is_typed_is_text(service: Service, typed: str) -> None:
    """It neither ends a sentence, nor asks for another language, nor is it left out."""
    body = service.translate(f"Thank {typed} you", include=["tokens"]).json()
    tag, *pieces, end = body["details"][0]["tokens"][0]["source"]
    assert (tag, end) == ("<2fr>", "</s>")
    assert not {"<s>", "</s>", "<pad>", "<2en>", "<2fr>"} & set(pieces)
    assert len(pieces) > len(typed)
