"""DeepL's own package, unchanged, against the running service."""

import io
import os
import subprocess
import sys
from pathlib import Path

import deepl
import pytest
from deepl import Formality, ModelType, SplitSentences

from tests.app.remote import Live
from tests.clients.conftest import connect


def test_a_text(live: Live) -> None:
    result = connect(live).translate_text("good morning, you & me = 100 %", target_lang="FR")
    assert isinstance(result, deepl.TextResult)
    assert result.text == "GOOD MORNING, YOU & ME = 100 %"
    assert result.detected_source_lang == "EN"
    assert result.billed_characters == len("good morning, you & me = 100 %")


def test_the_older_class_too(live: Live) -> None:
    client = deepl.Translator("any", server_url=live.url.rstrip("/"), send_platform_info=False)
    client.set_app_info("someone's program", "1.0")
    assert client.translate_text("good morning", target_lang=deepl.Language.FRENCH).text == "GOOD MORNING"
    client.close()


def test_as_many_texts_as_deepl_takes_keep_their_order_and_white_space(live: Live) -> None:
    more = [f"word {i}" for i in range(45)]
    texts = ["one", "", " \n", "\ttwo  words. \r\n\r\nthree\n", "où est la gare, s'il vous plaît", *more]
    results = connect(live).translate_text(texts, target_lang="FR")
    translations = ["ONE", "", " \n", "\tTWO WORDS. \r\n\r\nTHREE\n", texts[4], *map(str.upper, more)]
    assert [result.text for result in results] == translations
    assert [result.billed_characters for result in results] == list(map(len, texts))
    assert [results[0].detected_source_lang, results[4].detected_source_lang] == ["EN", "FR"]


@pytest.mark.parametrize("target", ["EN-GB", "EN-US", "en-gb"])
def test_regional_variants_mean_the_language(live: Live, target: str) -> None:
    result = connect(live).translate_text("bonjour", source_lang="FR", target_lang=target)
    assert (result.text, result.detected_source_lang) == ("BONJOUR", "FR")


def test_xml_and_what_to_leave_alone_in_it(live: Live) -> None:
    """As translation tools send it: their placeholders are elements that are not to be touched."""
    xml = "<seg>press <x id='1'>Ctrl &amp; C</x> now.\n<g>twice</g></seg>"
    result = connect(live).translate_text(
        [xml, "plain"], target_lang="FR", tag_handling="xml", ignore_tags="x,ph", splitting_tags=["seg"]
    )
    assert result[0].text == "<seg>PRESS <x id='1'>Ctrl &amp; C</x> NOW.\n<g>TWICE</g></seg>"
    assert result[1].text == "PLAIN"


@pytest.mark.parametrize(
    ("splitting", "translation"),
    [
        (None, "ONE\nTWO.  THREE"),
        (SplitSentences.ALL, "ONE\nTWO.  THREE"),
        (SplitSentences.NO_NEWLINES, "ONE TWO.  THREE"),
        (SplitSentences.OFF, "ONE TWO. THREE"),
    ],
)
def test_splitting(live: Live, splitting: SplitSentences | None, translation: str) -> None:
    """The double puts one space between the words of a sentence."""
    result = connect(live).translate_text(
        "one\ntwo.  Three", source_lang="EN", target_lang="FR", split_sentences=splitting
    )
    assert result.text == translation


@pytest.mark.parametrize(
    "wish",
    [
        {"formality": Formality.DEFAULT},
        {"formality": Formality.PREFER_LESS},
        {"formality": "prefer_more"},
        {"preserve_formatting": True},
        {"preserve_formatting": False},
        {"context": "what was said before"},
        {"outline_detection": True},
        {"extra_body_parameters": {"enable_beta_languages": True}},
    ],
)
def test_wishes_are_heard(live: Live, wish: dict[str, object]) -> None:
    assert connect(live).translate_text("one", target_lang="FR", **wish).text == "ONE"


@pytest.mark.parametrize(
    ("asked_for", "used"),
    [
        (None, None),
        (ModelType.LATENCY_OPTIMIZED, "latency_optimized"),
        (ModelType.QUALITY_OPTIMIZED, "quality_optimized"),
        (ModelType.PREFER_QUALITY_OPTIMIZED, "quality_optimized"),
    ],
)
def test_the_kind_of_model_is_told(live: Live, asked_for: ModelType | None, used: str | None) -> None:
    result = connect(live).translate_text("one", target_lang="FR", model_type=asked_for)
    assert (result.text, result.model_type_used) == ("ONE", used)


def test_every_language_on_the_list_can_be_asked_for(live: Live) -> None:
    client = connect(live)
    sources, targets = client.get_source_languages(), client.get_target_languages()
    assert [(language.code, language.name) for language in sources] == [("EN", "English"), ("FR", "French")]
    assert [language.code for language in targets] == ["EN-GB", "EN-US", "FR"]
    assert [language.supports_formality for language in targets] == [False] * 3
    for source in sources:
        for target in targets:
            assert client.translate_text("42", source_lang=source, target_lang=target).text == "42"


def test_glossaries_cannot_be_stored_without_a_folder(live: Live, once: None) -> None:
    client = connect(live)
    pairs = {(pair.source_lang, pair.target_lang) for pair in client.get_glossary_languages()}
    assert pairs == {("en", "fr"), ("fr", "en")}
    assert (client.list_glossaries(), client.list_multilingual_glossaries()) == ([], [])
    with pytest.raises(deepl.DeepLException, match="GLOSSARY_FOLDER names no folder"):
        client.create_glossary("mine", "EN", "FR", {"one": "un"})


def test_the_command_line_of_the_package(live: Live) -> None:
    command = [sys.executable, "-m", "deepl", "text", "--to", "FR", "--show-detected-source", "good morning"]
    variables = os.environ | {"DEEPL_AUTH_KEY": "any", "DEEPL_SERVER_URL": live.url}
    ran = subprocess.run(command, env=variables, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "Detected source language: EN\nGOOD MORNING\n"


def test_a_document_from_file_to_file(live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepl.translator.time.sleep", lambda _: None)
    source, result = tmp_path / "a.md", tmp_path / "b.md"
    source.write_text("# one\n\n[two](x.md) `three`\n", "utf-8")
    status = connect(live).translate_document_from_filepath(
        source, result, source_lang="EN", target_lang="FR"
    )
    assert status.done
    assert result.read_text("utf-8") == "# ONE\n\n[TWO](x.md) `three`\n"


def test_a_document_in_memory_and_its_failure(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepl.translator.time.sleep", lambda _: None)
    client, output = connect(live), io.BytesIO()
    client.translate_document("one", output, source_lang="EN", target_lang="FR", filename="a.txt")
    assert output.getvalue() == b"ONE"
    with pytest.raises(deepl.DocumentTranslationException, match="archive"):
        client.translate_document(b"one", output, source_lang="EN", target_lang="FR", filename="a.docx")
    with pytest.raises(deepl.DeepLException, match=r"\.exe|ends in"):
        client.translate_document_upload(b"one", target_lang="FR", filename="a.exe")
    with pytest.raises(deepl.DeepLException, match="rephras"):
        client.rephrase_text("one", target_lang="EN-GB")
