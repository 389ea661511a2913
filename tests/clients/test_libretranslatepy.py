"""LibreTranslate's Python client, unchanged, against the running service."""

from libretranslatepy import LibreTranslateAPI

from tests.app.remote import Live


def test_it_translates(live: Live) -> None:
    client = LibreTranslateAPI(live.url)
    assert client.translate("good morning, you & me = 100 %", "en", "fr") == "GOOD MORNING, YOU & ME = 100 %"
    assert client.translate("où est la gare, s'il vous plaît", "auto", "en", timeout=20).startswith("OÙ EST")
    assert client.translate(" \n", "en", "fr") == " \n"


def test_it_detects_and_lists_languages(live: Live) -> None:
    client = LibreTranslateAPI(live.url.rstrip("/"))
    found = client.detect("Où est la gare, s'il vous plaît ?")
    assert (found[0]["language"], set(found[0])) == ("fr", {"language", "confidence"})
    assert client.languages()[0] == {"code": "en", "name": "English", "targets": ["fr"]}


def test_its_key_opens(guarded: Live) -> None:
    client = LibreTranslateAPI(guarded.url, api_key="sesame")
    assert client.translate("one", "en", "fr") == "ONE"
    assert client.detect("one")
    assert client.languages()
