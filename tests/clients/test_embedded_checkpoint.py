"""Both clients against the service as `make serve` starts it, with the checkpoint of the repository."""

from collections.abc import Iterator

import deepl
import pytest
from libretranslatepy import LibreTranslateAPI

from tests.app.remote import Live, running
from tests.clients.conftest import connect

LETTER = "Good morning.\nWhere is the station?  I am\nvery hungry.\n"


@pytest.fixture(scope="module")
def service() -> Iterator[Live]:
    with running(real=True, DRAGOMAN_DEVICE="cpu") as live:
        yield live


def test_both_give_the_same_translation(service: Live) -> None:
    text = "Where is the station?"
    result = connect(service).translate_text(text, target_lang="FR")
    assert (result.text, result.detected_source_lang) == ("Où est la gare ?", "EN")
    assert LibreTranslateAPI(service.url).translate(text, "auto", "fr") == result.text


def test_a_letter_keeps_its_lines_unless_told_otherwise(service: Live) -> None:
    client = connect(service)

    def translated(splitting: deepl.SplitSentences) -> str:
        result = client.translate_text(LETTER, source_lang="EN", target_lang="FR", split_sentences=splitting)
        return str(result.text)

    by_line = translated(deepl.SplitSentences.ALL).splitlines()
    assert len(by_line) == 3
    assert by_line[1].startswith("Où est la gare ?  ")
    across_lines = translated(deepl.SplitSentences.NO_NEWLINES)
    assert across_lines.count("\n") == 2
    assert "Où est la gare ?  " in across_lines
    whole = translated(deepl.SplitSentences.OFF)
    assert whole.endswith("\n")
    assert whole.count("\n") == 1


def test_markup_and_languages(service: Live) -> None:
    client = connect(service)
    html = "<p>Where is the <b>station</b>?</p>"
    result = client.translate_text(html, source_lang="EN", target_lang="FR", tag_handling="html")
    assert result.text.startswith("<p>")
    assert "<b>" in result.text
    assert {language.code for language in client.get_source_languages()} == {"DE", "EN", "ES", "FR", "ZH"}
    assert client.get_usage().character.count >= len(html)
