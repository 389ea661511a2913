"""Subtitles: SubRip and WebVTT. The lines of a cue are one text; numbers, times and notes stay."""

import re
from collections.abc import Iterator, Sequence

from model.text.formats.file_text import FileError, FileText, decoded

_BLANK = re.compile(r"(\r?\n(?:[ \t]*+\r?\n)+)")
_TIMES = re.compile(r"^[^\n]*\d[:.]\d\d[.,]\d{3}[ \t]*-->[^\n]*\r?\n?", re.MULTILINE)
# Tags of voices, italics and times, and the positions of SubRip.
_BEFORE = re.compile(r"(?:<[^<>\n]*>|\{\\[^{}\n]*\}|\s|[-–—](?!\d))*+")
_END_TAG = re.compile(r"</[^<>\n]*>")
# Where the next person of a dialogue speaks.
_SPEAKER = re.compile(r"(\r?\n(?:<[^<>\n]*>|[ \t])*+[-–—](?![-–—\d])[ \t]*+)")


def subtitles(content: bytes) -> FileText:
    """Returns the cues of subtitles.

    Raises:
        FileError: If the file has no cue.
    """
    source = decoded(content)
    pieces = list(_pieces(source))
    if source.strip() and not _TIMES.search(source):
        raise FileError("must be subtitles, but has no line of times")
    texts = tuple(" ".join(piece.split()) for piece, is_text in pieces if is_text)

    def rebuild(translations: Sequence[str]) -> bytes:
        remaining = iter(translations)
        return "".join(
            _in_lines(next(remaining), piece) if is_text else piece for piece, is_text in pieces
        ).encode()

    return FileText(texts, rebuild, joins_lines=True)


def _pieces(source: str) -> Iterator[tuple[str, bool]]:
    for block in _BLANK.split(source):
        times = _TIMES.search(block)
        if times is None:
            yield block, False
            continue
        yield block[: times.end()], False
        text = block[times.end() :]
        start = _BEFORE.match(text)
        begin = start.end() if start else 0
        end = max(_end(text), begin)
        yield text[:begin], False
        for place, part in enumerate(_SPEAKER.split(text[begin:end])):
            yield part, place % 2 == 0 and bool(part.strip())
        yield text[end:], False


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
    breaks = before.count("\n")
    newline = "\r\n" if "\r\n" in before else "\n"
    words = text.split(" ")
    lines: list[str] = []
    for left in range(breaks + 1, 0, -1):
        size, line = sum(map(len, words)) + len(words), ""
        while words and (not line or len(line) + len(words[0]) / 2 < size / left):
            line = f"{line} {words.pop(0)}".strip()
        lines.append(line)
    lines[-1] = " ".join([lines[-1], *words]).strip()
    return newline.join(filter(None, lines))
