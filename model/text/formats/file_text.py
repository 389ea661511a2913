"""The texts of a file, and how to rebuild the file from their translations."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from model.errors import InputError
from model.text.document import Splitting
from model.text.formats.markup_syntax import MarkupSyntax

_SAMPLE_CHARACTERS: Final = 2_000
_TAG = re.compile("<[^<>]*>")
_HTML_TAG = re.compile(r"<html(?=\s)[^<>]*>", re.IGNORECASE)
_LANGUAGE = re.compile(r"""(\s(?:xml:)?lang\s*=\s*)(?:"[^"]*"|'[^']*')""", re.IGNORECASE)
_CHARSET = re.compile(
    r"""(<meta(?=\s)[^<>]*\scharset\s*=\s*["']?|<meta(?=\s)[^<>]*;\s*charset=)[\w-]+""", re.IGNORECASE
)
_TWO_BEYOND_ASCII = re.compile(rb"[\x80-\xff]{2}")


class FileError(InputError):
    """A file that is not what its name says, or cannot be translated.

    Args:
        reason: Why not, as the end of a sentence.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"`file` {reason}", "file")


@dataclass(frozen=True)
class FileText:
    """The texts of a file.

    Attributes:
        texts: What is translated, in order.
        rebuild: Makes the file from one translation for each text.
        markup: Syntax of the texts; None if they are plain.
        joins_lines: Whether a line break within a text ends no sentence.
    """

    texts: tuple[str, ...]
    rebuild: Callable[[Sequence[str]], bytes]
    markup: MarkupSyntax | None = None
    joins_lines: bool = False

    @property
    def splitting(self) -> Splitting:
        """Where the sentences of a text end."""
        return "across_lines" if self.joins_lines else "sentences"

    @property
    def sample(self) -> str:
        """The beginning of the texts without their markup, to detect their language."""
        sample = ""
        for text in self.texts:
            sample += _TAG.sub(" ", text[: 10 * _SAMPLE_CHARACTERS]) + "\n" if self.markup else f"{text}\n"
            if len(sample) > _SAMPLE_CHARACTERS:
                break
        return sample


def decoded(content: bytes) -> str:
    """Returns the text of a file in UTF-8, in UTF-16 with a byte order mark, or in Windows-1252.

    Windows-1252, of which Latin-1 is a part, has no sign by which to know it. A text that is not in UTF-8 is
    taken for it if no two letters beyond ASCII follow each other, which in other encodings they mostly do.

    Raises:
        FileError: If it is none of them.
    """
    is_wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = content.decode("utf-16" if is_wide else "utf-8")
    except UnicodeDecodeError:
        if is_wide or _TWO_BEYOND_ASCII.search(content):
            raise FileError("must be in UTF-8") from None
        text = content.decode("cp1252", errors="replace")
    if "\0" in text:
        raise FileError("must be a text, but holds NUL characters")
    return text


def labelled(page: str, language: str) -> str:
    """Returns an HTML page that says its language, if it said one before, and that it is in UTF-8.

    Args:
        page: The page.
        language: Code of its language.
    """
    page = _HTML_TAG.sub(lambda tag: _LANGUAGE.sub(rf'\g<1>"{language}"', tag[0]), page, count=1)
    return _CHARSET.sub(r"\g<1>utf-8", page)
