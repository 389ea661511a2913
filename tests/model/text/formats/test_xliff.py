"""XLIFF: sources become targets; everything else stays."""

import re
from xml.etree import ElementTree

import pytest

from model.text.formats.file_text import FileError
from model.text.formats.formats import read_file
from model.text.formats.markup import layout_of
from model.text.tags import KEPT_TAG
from tests.model.text.formats.shouting import shouted
from tests.model.text.processor_time import at_most

FIRST = """<?xml version="1.0"?>
<xliff version="1.2"><file original="a" source-language="en"><body>
  <trans-unit id="1">
    <source>Hello, <g id="1">you</g> &amp; me<x id="2"/>.</source>
  </trans-unit>
  <trans-unit id="2" translate="no"><source>code</source></trans-unit>
  <trans-unit id="3"><source>Yes.</source><target state="final">Ja.</target></trans-unit>
  <trans-unit id="4"><source>No.</source><target state="new"/></trans-unit>
  <trans-unit id="5"><source>On <bpt id="1">&lt;b></bpt>now</source><seg-source><mrk>On</mrk> now</seg-source>
    <alt-trans><source>x</source><target>y</target></alt-trans></trans-unit>
  <!-- <trans-unit id="6"><source>hidden</source></trans-unit> -->
  <group translate="no"><trans-unit id="7"><source>a</source></trans-unit>
    <trans-unit id="8" translate="yes"><source>b</source><target>b</target></trans-unit></group>
</body></file></xliff>
"""
SECOND = """<x:xliff xmlns:x="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">
<x:file id="f"><x:unit id="u"><m:matches xmlns:m="y"><m:match><x:source>n</x:source></m:match></m:matches>
<x:segment><x:source>Good <x:pc id="1">day</x:pc></x:source></x:segment>
<x:ignorable><x:source> </x:source></x:ignorable>
</x:unit></x:file></x:xliff>
"""


def test_sources_of_version_1_become_targets() -> None:
    expected = FIRST.replace('"en"', '"en" target-language="fr"')
    for before, after in (
        ('me<x id="2"/>.</source>', '\n    <target>HELLO, <g id="1">YOU</g> &amp; ME<x id="2"/>.</target>'),
        ("</mrk> now</seg-source>", "<target><mrk>ON</mrk> NOW</target>"),
    ):
        expected = expected.replace(before, before + after)
    expected = expected.replace('<target state="new"/>', '<target state="translated">NO.</target>')
    expected = expected.replace("<target>b<", "<target>B<")
    assert shouted(".xlf", FIRST.encode()).decode() == expected
    # What was translated now stays as it is.
    assert read_file(".xlf", expected.encode(), "de").texts == ()
    assert read_file(".xlf", expected.encode(), "de").rebuild(()).decode() == expected


def test_sources_of_version_2_become_targets() -> None:
    expected = SECOND.replace('srcLang="en"', 'srcLang="en" trgLang="fr"')
    target = '<x:target>GOOD <x:pc id="1">DAY</x:pc></x:target>'
    expected = expected.replace("</x:source></x:segment>", f"</x:source>{target}</x:segment>")
    assert shouted(".xliff", SECOND.encode()).decode() == expected


@pytest.mark.parametrize(
    ("charset", "source"),
    [
        ("ISO-8859-1", "Un café ici"),
        ("windows-1252", "créée – été…"),
        ("iso-8859-2", "Zażółć gęślą jaźń"),
        ("KOI8-R", "Привет"),
        ("Shift_JIS", "①日本"),
        ("UTF-16", "Un café ici"),
        ("utf-8", "Un café ici"),
    ],
)
def test_a_file_of_any_charset_is_read_and_comes_back_in_what_it_declares(charset: str, source: str) -> None:
    document = (
        f"<?xml version='1.0' encoding='{charset}' ?><xliff version='1.2'><file original='a'><body>"
        f"<trans-unit id='1'><source>{source}</source></trans-unit></body></file></xliff>"
    )
    encoded = document.encode("cp932" if charset == "Shift_JIS" else charset)
    assert read_file(".xlf", encoded, "fr").texts == (source,)
    written = shouted(".xlf", encoded)
    root = ElementTree.fromstring(written)
    assert [root.findtext(f".//{name}") for name in ("source", "target")] == [source, source.upper()]
    assert (b"encoding='utf-8' ?>" if charset == "utf-8" else b"encoding='UTF-8' ?>") in written


def test_text_in_a_section_is_text() -> None:
    source = "<![CDATA[<b>Hi</b> & you]]>"
    document = f"<xliff><file><trans-unit><source>{source}</source></trans-unit></file></xliff>"
    assert read_file(".xlf", document.encode(), "fr").texts == ("&lt;b&gt;Hi&lt;/b&gt; &amp; you",)


@pytest.mark.parametrize(
    ("source", "is_word"),
    [
        ('Hi <x id="1"/>, you', True),
        ('<ph id="1"/>', True),
        ('A <x id="1"/>bold<x id="2"/> word', False),
        ('one<x id="1"/>', False),
        ('<g id="1"/> one', False),
    ],
)
def test_a_placeholder_between_spaces_is_a_word(source: str, is_word: bool) -> None:
    document = f"<xliff><file><trans-unit><source>{source}.</source></trans-unit></file></xliff>"
    file = read_file(".xlf", document.encode(), "fr")
    (text,) = layout_of(file.texts[0], file.markup).texts
    assert bool(re.search(KEPT_TAG, text)) == is_word


def test_sentences_continue_over_elements_within_a_line() -> None:
    file = read_file(".xlf", FIRST.encode(), "fr")
    assert len(layout_of(file.texts[0], file.markup).texts) == 1


@pytest.mark.parametrize(
    "content", [b"", b"<html></html>", b"<!-- <xliff> -->", b"<xliff>\xff", b"<xliff", FIRST.encode()[:-10]]
)
def test_other_files_and_entities_are_refused(content: bytes) -> None:
    with pytest.raises(FileError):
        read_file(".xlf", content, "fr")
    with pytest.raises(FileError, match="entities"):
        read_file(".xlf", b'<!DOCTYPE a [<!ENTITY b "c">]><xliff></xliff>', "fr")


@pytest.mark.parametrize(
    "piece",
    ["<!--", "<source>", "<trans-unit><source>", "<target ", "</target>", "<trans-unit>", "<![CDATA["],
)
def test_hostile_files_take_linear_time(piece: str) -> None:
    content = "<xliff></xliff>" + piece * (300_000 // len(piece))
    with at_most(seconds=5):  # in quadratic time one of these would take minutes
        file = read_file(".xlf", content.encode(), "fr")
        assert re.sub(r' target-language="fr"', "", file.rebuild(file.texts).decode()) == content
