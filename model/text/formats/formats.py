"""The formats of files by their suffix."""

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Final

from model.text.formats.archives import ARCHIVES, archived
from model.text.formats.file_text import FileError, FileText, html, plain_text
from model.text.formats.markdown import markdown
from model.text.formats.subtitles import subtitles

_TEXT_FORMATS: Final[Mapping[str, Callable[[bytes], FileText]]] = {
    ".txt": plain_text,
    ".md": markdown,
    ".html": html,
    ".htm": html,
    ".srt": subtitles,
    ".vtt": subtitles,
}
SUFFIXES: Final = (*_TEXT_FORMATS, *ARCHIVES)
"""Suffixes of the files that can be translated."""


def suffix_of(name: str) -> str:
    """Returns the suffix of a file's name in lower case.

    Raises:
        FileError: If files of this suffix cannot be translated.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise FileError(f"must have a name that ends in one of {', '.join(SUFFIXES)}")
    return suffix


def read_file(suffix: str, content: bytes, max_unpacked_bytes: int) -> FileText:
    """Returns the texts of a file.

    Args:
        suffix: One of SUFFIXES.
        content: Its bytes.
        max_unpacked_bytes: Most bytes of the parts of an archive.

    Raises:
        FileError: If the file is not what its suffix says, or is over the limit.
    """
    if suffix in ARCHIVES:
        return archived(suffix, content, max_unpacked_bytes)
    return _TEXT_FORMATS[suffix](content)
