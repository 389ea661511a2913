"""Subtitles: SubRip and WebVTT. The lines of a cue are one text; numbers, times and notes stay."""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from model.text.formats.file_text import FileError, FileText, decoded, text_of

_WEBVTT = re.compile("\ufeff?WEBVTT")
_BLANK = re.compile(r"(\r?\n(?:[ \t]*+\r?\n)+)")
# A cue begins with its times, and perhaps its number: the blank line before it may be missing.
_START = re.compile(
    r"(?:^[ \t]*\d+[ \t]*\r?\n)?^[^\n]*\d[:.]\d\d[.,]\d{3}[ \t]*-->[^\n]*(?:\r?\n|\Z)", re.MULTILINE
)
# Tags of voices, italics and times, and the codes of SubRip.
_TAG = r"(?:<[^<>\n]*>|\{\\[^{}\n]*\})"
_BEFORE = re.compile(rf"(?:{_TAG}|\s|[-–—](?!\d))*+")
_END_TAG = re.compile(r"</[^<>\n]*>")
# Where the next person of a dialogue speaks, in a line of his own or not.
_SPEAKER = re.compile(
    r"(\r?\n(?:(?:<[^<>\n]*>|[ \t])*+[-–—](?![-–—\d])[ \t]*+"
    r"|(?=[A-Z][A-Z .]{1,30}:\s|<v[.\s])(?:<v[^<>\n]*>)?)"
    r"|(?<=[.!?…]) [-–—] ?(?=[^\W\d_]))"
)
# Spaces within a tag divide no words.
_WORD = re.compile(r"(?:<[^<>]*>|[^ ])++")
_MARK = re.compile(r'<(?:/?b|img) id="(\d+)">')


def subtitles(content: bytes) -> FileText:
    """Returns the cues of subtitles.

    Raises:
        FileError: If the file has no cue.
    """
    source = decoded(content)
    if source.strip() and not _START.search(source):
        raise FileError("must be subtitles, but has no line of times")
    return text_of([each if isinstance(each, str) else _Speech(*each) for each in _pieces(source)])


@dataclass
class _Speech:
    """What one person says in a cue.

    Attributes:
        source: The text as it was written.
        is_html: Whether character references stand for characters, as in WebVTT.
        markup: The text in one line as HTML, with an element for each tag.
    """

    source: str
    is_html: bool
    markup: str = ""
    _tags: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        parts = re.split(f"({_TAG})", " ".join(self.source.split()))
        if not self.is_html:
            parts[::2] = (html.escape(text, quote=False) for text in parts[::2])
        parts[1::2] = map(self._mark, parts[1::2])
        self.markup = "".join(parts)

    def _mark(self, tag: str) -> str:
        self._tags.append(tag)
        name = "/b" if tag.startswith("</") else "b" if tag[1:2].isalpha() else "img"
        return f'<{name} id="{len(self._tags) - 1}">'

    def restored(self, markup: str) -> str:
        """Returns a translation of `markup` with the tags of the source, in as many lines."""
        parts = _MARK.split(markup)
        if not self.is_html:
            parts[::2] = map(html.unescape, parts[::2])
        parts[1::2] = (self._tags[int(number)] for number in parts[1::2])
        return _in_lines("".join(parts), self.source)


def _pieces(source: str) -> Iterator[str | tuple[str, bool]]:
    """The file in order: what stays as strings, texts as tuples with whether they are HTML."""
    is_webvtt = _WEBVTT.match(source) is not None
    starts = list(_START.finditer(source))
    yield source[: starts[0].start()] if starts else source
    for start, end in zip(starts, [*(each.start() for each in starts[1:]), len(source)], strict=True):
        yield start[0]
        for place, block in enumerate(_BLANK.split(source[start.end() : end])):
            # What follows a blank line may be a name or a note in WebVTT; in SubRip it is text.
            if place % 2 or (is_webvtt and place):
                yield block
            else:
                yield from _speeches(block, is_webvtt)


def _speeches(text: str, is_html: bool) -> Iterator[str | tuple[str, bool]]:
    start = _BEFORE.match(text)
    begin = start.end() if start else 0
    end = max(_end(text), begin)
    yield text[:begin]
    for place, part in enumerate(_SPEAKER.split(text[begin:end])):
        yield (part, is_html) if place % 2 == 0 and part.strip() else part
    yield text[end:]


def _end(text: str) -> int:
    """Returns where the text of a cue ends, before white space and end tags."""
    while text := text.rstrip():
        place = text.rfind("</")
        if place < 0 or not _END_TAG.fullmatch(text, place):
            break
        text = text[:place]
    return len(text)


def _in_lines(text: str, before: str) -> str:
    """A translation in as many lines as its source has, of about the same length."""
    newline = "\r\n" if "\r\n" in before else "\n"
    words = _WORD.findall(text)
    characters_left = sum(map(len, words)) + len(words)
    lines: list[str] = []
    begin = end = 0
    for lines_left in range(before.count("\n") + 1, 1, -1):
        size, length = 0, characters_left / lines_left
        # A word goes to the line that holds most of it.
        while end < len(words) and (end == begin or size - 1 + len(words[end]) / 2 < length):
            size += len(words[end]) + 1
            end += 1
        lines.append(" ".join(words[begin:end]))
        begin, characters_left = end, characters_left - size
    lines.append(" ".join(words[begin:]))
    return newline.join(filter(None, lines))
