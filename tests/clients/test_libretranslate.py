"""Two Python clients of LibreTranslate, unchanged, against the running service."""

from pathlib import Path

import pytest
from deep_translator import LibreTranslator
from deep_translator.exceptions import AuthorizationException
from libretranslatepy import LibreTranslateAPI

from tests.app.remote import Live

TEXT = "good morning, you & me = 100 %"


def deep_translator(live: Live, key: str = "any") -> LibreTranslator:
    return LibreTranslator(source="en", target="fr", custom_url=live.url, api_key=key)


def test_libretranslatepy(live: Live) -> None:
    client = LibreTranslateAPI(live.url.rstrip("/"))
    assert client.translate(TEXT, "en", "fr") == TEXT.upper()
    assert client.translate("où est la gare, s'il vous plaît", "auto", "en", timeout=20).startswith("OÙ EST")
    assert client.translate(" \n", "en", "fr") == " \n"
    found = client.detect("Où est la gare, s'il vous plaît ?")
    assert (found[0]["language"], set(found[0])) == ("fr", {"language", "confidence"})
    assert client.languages()[0] == {"code": "en", "name": "English", "targets": ["fr"]}


def test_deep_translator(live: Live, tmp_path: Path) -> None:
    client = deep_translator(live)
    assert client.translate(TEXT) == TEXT.upper()
    assert client.translate_batch(["one", "two"]) == ["ONE", "TWO"]
    (tmp_path / "a.txt").write_text("one two")
    assert client.translate_file(str(tmp_path / "a.txt")) == "ONE TWO"


def test_their_keys_open(guarded: Live) -> None:
    client = LibreTranslateAPI(guarded.url, api_key="sesame")
    assert client.translate("one", "en", "fr") == "ONE"
    assert client.detect("one")
    assert client.languages()
    assert deep_translator(guarded, "sesame").translate("one") == "ONE"
    with pytest.raises(AuthorizationException):
        deep_translator(guarded, "wrong").translate("one")
