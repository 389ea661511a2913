"""The formats of files by their suffix; plain text and HTML, which need no module of their own."""

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import PurePath
from typing import Final, NamedTuple, Self

from model.text.formats.archives import ARCHIVES, archived
from model.text.formats.file_text import FileError, FileText, decoded, decoded_markup, labelled
from model.text.formats.markdown import markdown
from model.text.formats.markup_syntax import HTML
from model.text.formats.subtitles import subtitles
from model.text.formats.xliff import xliff
from model.text.languages import UNSPACED_LETTER

# Widths at which people and programs break the lines of a paragraph.
_WIDTHS: Final = range(40, 121)
_UNSPACED_WIDTHS: Final = range(20, 61)
_INDENT: Final = re.compile(r"[ \t>]*")
_ITEM: Final = re.compile(r"[-*+•‣◦·–—#|]\s|\(?\w{1,3}[.)]\s")
_STOP: Final = re.compile(r"[.!?:…。！？：][\"'»”’)\]]*\Z")


def html(content: bytes, target: str) -> FileText:
    """Returns an HTML document as one text; the translated one says that it is in the target language."""
    page = decoded_markup(content, is_html=True)
    return FileText((page,), lambda texts: labelled(texts[0], target).encode(), markup=HTML, joins_lines=True)


class _Line(NamedTuple):
    """A line of a plain text: its indent and quotation marks, its text, and the white space at its end."""

    indent: str
    text: str
    end: str

    @classmethod
    def of(cls, line: str) -> Self:
        text = line.rstrip()
        indent = _INDENT.match(text)
        start = indent.end() if indent else 0
        return cls(text[:start], text[start:], line[len(text) :])

    @property
    def width(self) -> int:
        return len(self.indent) + len(self.text)

    @property
    def first_word(self) -> str:
        return self.text[0] if UNSPACED_LETTER.match(self.text) else self.text.split(maxsplit=1)[0]


def plain_text(content: bytes) -> FileText:
    """Returns the lines of a plain text, or its paragraphs if their lines were broken at one width."""
    lines = map(_Line.of, decoded(content).splitlines(keepends=True))
    paragraphs = [
        paragraph
        for has_text, group in groupby(lines, key=lambda line: bool(line.text))
        for paragraph in _paragraphs(list(group), has_text=has_text)
    ]

    def rebuild(translations: Sequence[str]) -> bytes:
        remaining = iter(translations)
        return "".join(
            _written(paragraph, next(remaining) if paragraph[0].text else "") for paragraph in paragraphs
        ).encode()

    return FileText(tuple(filter(None, map(_joined, paragraphs))), rebuild)


def _paragraphs(lines: Sequence[_Line], *, has_text: bool) -> Iterator[Sequence[_Line]]:
    """Yields lines between blank ones as one paragraph, or each by itself if they were not broken at a width.

    A program that breaks lines at a width puts as many words into each line as fit.
    """
    width = max(line.width for line in lines)
    if (
        has_text
        and width in (_UNSPACED_WIDTHS if UNSPACED_LETTER.match(lines[0].text) else _WIDTHS)
        and len({line.indent for line in lines[1:]}) == 1
        and not any(_ITEM.match(line.text) for line in lines[1:])
        and all(line.width + len(after.first_word) >= width for line, after in pairwise(lines))
        and any(_goes_on(line.text, after.text) for line, after in pairwise(lines))
    ):
        yield lines
    else:
        yield from ([line] for line in lines)


def _goes_on(line: str, after: str) -> bool:
    """Returns whether a sentence of one line clearly goes on in the next one."""
    return after[0].isalpha() and not after[0].isupper() and _STOP.search(line) is None


def _joined(lines: Sequence[_Line]) -> str:
    """Returns the text of a paragraph as one line."""
    text = lines[0].text
    for line in lines[1:]:
        text += " " * (not (UNSPACED_LETTER.match(text[-1]) and UNSPACED_LETTER.match(line.text))) + line.text
    return text


def _written(lines: Sequence[_Line], translation: str) -> str:
    """Returns the translation of a paragraph in lines of the same width, indented and quoted as they were."""
    first, last = lines[0], lines[-1]
    if len(lines) == 1:
        return first.indent + translation + first.end
    width = max(line.width for line in lines)
    broken = textwrap.wrap(
        translation,
        width,
        initial_indent=first.indent,
        subsequent_indent=last.indent,
        break_on_hyphens=False,
    )
    return first.end.join(broken) + last.end


_TEXT_FORMATS: Final[Mapping[str, Callable[[bytes], FileText]]] = {
    ".txt": plain_text,
    ".md": markdown,
    ".srt": subtitles,
    ".vtt": subtitles,
}
# Files that name their language.
_LABELLED_FORMATS: Final[Mapping[str, Callable[[bytes, str], FileText]]] = {
    ".html": html,
    ".htm": html,
    ".xliff": xliff,
    ".xlf": xliff,
}
SUFFIXES: Final = (*_TEXT_FORMATS, *ARCHIVES, *_LABELLED_FORMATS)
"""Suffixes of the files that can be translated."""
FORMATTED: Final = tuple(suffix for suffix in SUFFIXES if suffix != ".txt")
"""Suffixes of the files that are more than lines of text."""
MAX_UNPACKED_BYTES: Final = 67_108_864
"""Most bytes of the parts of an archive, where no other limit is set."""


def suffix_of(name: str) -> str:
    """Returns the suffix of a file's name in lower case.

    Raises:
        FileError: If files of this suffix cannot be translated.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise FileError(f"must have a name that ends in one of {', '.join(SUFFIXES)}")
    return suffix


def read_file(
    suffix: str, content: bytes, target: str, max_unpacked_bytes: int = MAX_UNPACKED_BYTES
) -> FileText:
    """Returns the texts of a file.

    Args:
        suffix: One of SUFFIXES.
        content: Its bytes.
        target: Code of the language that it is translated into, for files that name it.
        max_unpacked_bytes: Most bytes of the parts of an archive.

    Raises:
        FileError: If the file is not what its suffix says, or is over the limit.
    """
    if suffix in ARCHIVES:
        return archived(suffix, content, target, max_unpacked_bytes)
    if suffix in _LABELLED_FORMATS:
        return _LABELLED_FORMATS[suffix](content, target)
    return _TEXT_FORMATS[suffix](content)
