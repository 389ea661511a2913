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
