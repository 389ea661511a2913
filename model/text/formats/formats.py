"""The formats of files by their suffix."""

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Final

from model.text.formats.archives import ARCHIVES, archived
from model.text.formats.file_text import FileError, FileText, html, plain_text
from model.text.formats.markdown import markdown
from model.text.formats.subtitles import subtitles
from model.text.formats.xliff import xliff

_TEXT_FORMATS: Final[Mapping[str, Callable[[bytes], FileText]]] = {
    ".txt": plain_text,
    ".md": markdown,
    ".html": html,
    ".htm": html,
    ".srt": subtitles,
    ".vtt": subtitles,
}
_XLIFF: Final = (".xliff", ".xlf")
SUFFIXES: Final = (*_TEXT_FORMATS, *ARCHIVES, *_XLIFF)
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
        return archived(suffix, content, max_unpacked_bytes)
    if suffix in _XLIFF:
        return xliff(content, target)
    return _TEXT_FORMATS[suffix](content)
