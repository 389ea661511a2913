"""deep-translator's LibreTranslate client, unchanged, against the running service."""

from pathlib import Path

import pytest
from deep_translator import LibreTranslator
from deep_translator.exceptions import AuthorizationException

from tests.app.remote import Live


def connect(live: Live, key: str = "any") -> LibreTranslator:
    return LibreTranslator(source="en", target="fr", custom_url=live.url, api_key=key)


def test_it_translates(live: Live) -> None:
    client = connect(live)
    assert client.translate("good morning, you & me = 100 %") == "GOOD MORNING, YOU & ME = 100 %"
    assert client.translate_batch(["one", "two"]) == ["ONE", "TWO"]


def test_it_translates_a_file(live: Live, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two")
    assert connect(live).translate_file(str(tmp_path / "a.txt")) == "ONE TWO"


def test_its_key_opens(guarded: Live) -> None:
    assert connect(guarded, "sesame").translate("one") == "ONE"
    with pytest.raises(AuthorizationException):
        connect(guarded, "wrong").translate("one")
