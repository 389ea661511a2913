"""The texts of a file, and how to rebuild the file from their translations."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from model.errors import InputError
from model.text.document import Splitting
from model.text.formats.markup_syntax import HTML, MarkupSyntax

_SAMPLE_CHARACTERS: Final = 2_000
_TAG = re.compile("<[^<>]*>")


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
    """Returns the text of a file in UTF-8, or in UTF-16 with a byte order mark.

    Raises:
        FileError: If it is neither.
    """
    is_wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = content.decode("utf-16" if is_wide else "utf-8")
    except UnicodeDecodeError:
        raise FileError("must be in UTF-8") from None
    if "\0" in text:
        raise FileError("must be a text, but holds NUL characters")
    return text


def of_pieces(pieces: Iterable[tuple[str, bool]], *, joins_lines: bool = False) -> FileText:
    """Returns the texts of a file that was cut into pieces, each with whether it is translated."""
    cut = tuple((piece, is_text and not piece.isspace()) for piece, is_text in pieces if piece)

    def rebuild(texts: Sequence[str]) -> bytes:
        remaining = iter(texts)
        return "".join(next(remaining) if is_text else piece for piece, is_text in cut).encode()

    return FileText(tuple(piece for piece, is_text in cut if is_text), rebuild, joins_lines=joins_lines)


_LINE_END = re.compile(r"((?:\r?\n[ \t]*)+)")


def plain_text(content: bytes) -> FileText:
    """Returns the lines of a plain text; line breaks stay where they are."""
    parts = _LINE_END.split(decoded(content))
    return of_pieces((part, place % 2 == 0) for place, part in enumerate(parts))


def html(content: bytes) -> FileText:
    """Returns an HTML document as one text."""
    return FileText((decoded(content),), lambda texts: texts[0].encode(), markup=HTML, joins_lines=True)
