"""Glossaries by DeepL's own package, unchanged, against the running service."""

from collections.abc import Iterator
from pathlib import Path

import deepl
import pytest
from deepl.api_data import MultilingualGlossaryDictionaryEntries as Entries

from tests.app.double import write_keys
from tests.app.remote import Live, running
from tests.clients.conftest import connect

pytestmark = pytest.mark.usefixtures("once")
LANGUAGES = {"source_lang": "EN", "target_lang": "FR"}


@pytest.fixture(scope="module")
def storing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A service of two keys that stores glossaries."""
    folder = tmp_path_factory.mktemp("glossaries")
    keys = write_keys(folder, ali="sesame", gimli="mellon")
    with running(
        DRAGOMAN_API_KEYS_FILE=str(keys), DRAGOMAN_GLOSSARY_FOLDER=str(folder / "made" / "first")
    ) as live:
        yield live


def test_a_glossary_of_one_language_pair(storing: Live) -> None:
    client = connect(storing, "sesame")
    made = client.create_glossary("ours", "EN", "FR", {"good morning": "bonjour", "you": "toi"})
    assert (made.name, made.ready, made.entry_count) == ("ours", True, 2)
    assert (made.source_lang, made.target_lang) == ("EN", "FR")
    assert client.get_glossary(made.glossary_id).creation_time == made.creation_time
    assert [each.glossary_id for each in client.list_glossaries()] == [made.glossary_id]
    assert client.get_glossary_entries(made) == {"good morning": "bonjour", "you": "toi"}
    result = client.translate_text("Good morning, you.", glossary=made, **LANGUAGES)
    assert result.text == "BONJOUR, TOI."
    assert client.translate_text("you", glossary="ours", **LANGUAGES).text == "TOI"
    assert client.translate_text_with_glossary("<b>you</b>", made, tag_handling="html").text == "<b>TOI</b>"
    with pytest.raises(deepl.DeepLException, match="the glossary has no entries from fr to en"):
        client.translate_text("you", glossary="ours", source_lang="FR", target_lang="EN-GB")
    stranger = connect(storing, "mellon")
    assert stranger.list_glossaries() == []
    with pytest.raises(deepl.GlossaryNotFoundException):
        stranger.delete_glossary(made)
    client.delete_glossary(made)
    assert client.list_glossaries() == []


def test_a_glossary_of_several_language_pairs(storing: Live) -> None:
    client = connect(storing, "sesame")
    there, back = Entries("EN", "FR", {"one": "un", "two": "deux"}), Entries("FR", "EN", {"un": "one"})
    made = client.create_multilingual_glossary("both", [there, back])
    assert [(each.source_lang, each.entry_count) for each in made.dictionaries] == [("EN", 2), ("FR", 1)]
    assert client.list_glossaries() == []
    assert client.translate_text("un", glossary=made, source_lang="FR", target_lang="EN-GB").text == "ONE"
    renamed = client.update_multilingual_glossary_name(made, "all")
    assert (renamed.name, renamed.glossary_id) == ("all", made.glossary_id)
    client.update_multilingual_glossary_dictionary(made, Entries("EN", "FR", {"three": "trois"}))
    (found,) = client.get_multilingual_glossary_entries(made, "EN", "FR").dictionaries
    assert found.entries == "one\tun\ntwo\tdeux\nthree\ttrois"
    assert client.translate_text("One, two", glossary=made, **LANGUAGES).text == "UN, DEUX"
    info = client.replace_multilingual_glossary_dictionary(made, Entries("EN", "FR", {"four": "quatre"}))
    assert info.entry_count == 1
    client.delete_multilingual_glossary_dictionary(made, info)
    left = client.get_multilingual_glossary(made.glossary_id).dictionaries
    assert [(each.source_lang, each.target_lang) for each in left] == [("FR", "EN")]
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_multilingual_glossary_entries(made, "EN", "FR")
    client.delete_multilingual_glossary(made)
    assert client.list_multilingual_glossaries() == []


def test_of_several_glossaries_the_first_that_has_a_term_counts(storing: Live) -> None:
    client = connect(storing, "sesame")
    tables = [{"one": "un"}, {"one": "une", "two": "deux"}]
    glossaries = [client.create_glossary("some", "EN", "FR", table) for table in tables]
    assert client.translate_text("one two", glossary_ids=glossaries, **LANGUAGES).text == "UN DEUX"
    for glossary in glossaries:
        client.delete_glossary(glossary)


def test_entries_in_csv_and_entries_that_are_none(storing: Live) -> None:
    client = connect(storing, "sesame")
    made = client.create_glossary_from_csv("csv", "EN", "FR", 'one,"un, une",EN,FR\n')
    assert client.get_glossary_entries(made) == {"one": "un, une"}
    client.delete_glossary(made)
    many = client.create_multilingual_glossary_from_csv("csv", "EN", "FR", "two,deux\n")
    assert many.dictionaries[0].entry_count == 1
    client.delete_multilingual_glossary(many)
    for table, problem in (("one\n", "line 1 has one"), ("one,\n", "entry 1 must have from 1 to 200")):
        with pytest.raises(deepl.DeepLException, match=problem):
            client.create_glossary_from_csv("bad", "EN", "FR", table)
    with pytest.raises(deepl.DeepLException, match="`source_lang` must be one of EN, FR"):
        client.create_glossary("bad", "DE", "FR", {"eins": "un"})


def test_a_document(storing: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepl.translator.time.sleep", lambda _: None)
    client = connect(storing, "sesame")
    made = client.create_glossary("ours", "EN", "FR", {"one": "un"})
    (tmp_path / "in.txt").write_text("One two.")
    client.translate_document_from_filepath(
        tmp_path / "in.txt", tmp_path / "out.txt", glossary=made, **LANGUAGES
    )
    assert (tmp_path / "out.txt").read_text() == "UN TWO."
    client.delete_glossary(made)
