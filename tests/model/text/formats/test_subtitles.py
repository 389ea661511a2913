"""Subtitles come back with their times, tags and lines, whatever the translations."""

import re

import pytest

from model.text.formats.file_text import FileError
from model.text.formats.formats import read_file
from tests.model.text.formats.shouting import shouted
from tests.model.text.processor_time import at_most

SRT = """1
00:00:01,000 --> 00:00:02,000
<i>Hello there,
my friend.</i>

2
00:00:03,000 --> 00:00:04,000
- Yes.
"""


def test_subtitles_keep_times_and_lines() -> None:
    assert read_file(".srt", SRT.encode(), "fr", 0).texts == ("Hello there, my friend.", "Yes.")
    assert shouted(".srt", SRT.encode()).decode() == SRT.replace(
        "Hello there,\nmy friend.", "HELLO THERE,\nMY FRIEND."
    ).replace("Yes", "YES")
    vtt = "WEBVTT\n\nNOTE a note\n\nintro\n00:01.000 --> 00:02.000 align:start\n<v Ann>Hello.</v>\n"
    assert shouted(".vtt", vtt.encode()).decode() == vtt.replace("Hello", "HELLO")
    with pytest.raises(FileError):
        read_file(".srt", b"no times", "fr", 0)


def test_the_speakers_of_a_dialogue_are_translated_apart() -> None:
    cues = "1\n00:00:01,000 --> 00:00:02,000\n{}\n"
    for cue in (
        "- Hello.\n- Hi, what is\n  new?",
        "<i>-Hello.\n-Hi.</i>",
        "Yes.\n– No.",
        "- Hello.\r\n- 5 more.",
        "-Hello. -Hi.",
        "Hello… - Hi.",
        "– Hello? – Hi, what\nis new?",
    ):
        source = cues.format(cue)
        file = read_file(".srt", source.encode(), "fr", 0)
        assert len(file.texts) == 2
        assert (
            shouted(".srt", source.encode()).decode().split()
            == source.replace(cue, cue.upper()).replace("<I>", "<i>").replace("</I>", "</i>").split()
        )
    assert read_file(".srt", cues.format("It is\n-5 degrees.").encode(), "fr", 0).texts == (
        "It is -5 degrees.",
    )
    assert (
        len(read_file(".srt", cues.format("It is cold. -5 degrees - or less.").encode(), "fr", 0).texts) == 1
    )


@pytest.mark.parametrize("break_", ["\n", "\r\n"])
def test_a_cue_begins_without_a_blank_line_before_it(break_: str) -> None:
    source = break_.join(
        ["1", "00:01.000 --> 00:02.000", "one", "2", "00:03.000 --> 00:04.000", "two", "", "more", ""]
    )
    assert read_file(".srt", source.encode(), "fr").texts == ("one", "two", "more")
    expected = re.sub("one|two|more", lambda word: word[0].upper(), source)
    assert shouted(".srt", source.encode()).decode() == expected


@pytest.mark.parametrize(
    ("start", "cue", "texts", "translations", "expected"),
    [
        (
            "",
            "I am <b>very</b> old & {\\i1}ill{\\i0} < 3",
            ['I am <b id="0">very</b id="1"> old &amp; <img id="2">ill<img id="3"> &lt; 3'],
            ['Je suis & <b id="0">tr\u00e8s</b id="1"> <img id="2">malade<img id="3"> &lt; 3'],
            "Je suis & <b>tr\u00e8s</b> {\\i1}malade{\\i0} < 3",
        ),
        (
            "WEBVTT\n\n",
            "<v Ann>My &amp; <c.loud big>friend</c> <00:01.500>now",
            ['My &amp; <b id="0">friend</b id="1"> <img id="2">now'],
            ['Mon &amp; <b id="0">ami</b id="1"> <img id="2">l\u00e0'],
            "<v Ann>Mon &amp; <c.loud big>ami</c> <00:01.500>l\u00e0",
        ),
        ("", "[BELL]\nMARY: Who?", ["[BELL]", "MARY: Who?"], ["[BELL]", "MARY: Qui?"], "[BELL]\nMARY: Qui?"),
        (
            "WEBVTT\n\n",
            "<v A>Yes.</v>\n<v B>No.</v>",
            ['Yes.</b id="0">', "No."],
            ['Oui.</b id="0">', "Non."],
            "<v A>Oui.</v>\n<v B>Non.</v>",
        ),
    ],
)
def test_tags_within_a_cue_are_elements(
    start: str, cue: str, texts: list[str], translations: list[str], expected: str
) -> None:
    source = start + "00:01.000 --> 00:02.000\n{}\n\nNOTE text\n"
    file = read_file(".vtt", source.format(cue).encode(), "fr")
    notes = [] if start else ["NOTE text"]
    assert list(file.texts) == texts + notes
    assert file.rebuild(translations + notes).decode() == source.format(expected)


@pytest.mark.parametrize("piece", [" ", "</", "</i", "\n ", "<i>", "a ", "- ", "{\\", "\n- ", "</i> "])
def test_hostile_subtitles_take_linear_time(piece: str) -> None:
    cue = "00:01.000 --> 00:02.000\nx" + piece * (100_000 // len(piece)) + "x"
    with at_most(seconds=5):  # in quadratic time one of these would take minutes
        file = read_file(".srt", cue.encode(), "fr", 0)
        assert file.rebuild(file.texts)
