"""Lines of large text files, plain or gzip: how they are read, translated and written."""

import gzip
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Final

from model.checkpoint.card import Pair
from model.decode_request import DecodeOptions
from model.errors import InputError
from model.files import decoded_lines

if TYPE_CHECKING:
    from model.translation.result import Translation
    from model.translation.translator import Translator

_NO_TEXT: Final = {
    "%PDF-": "a PDF",
    "PK\x03\x04": "a ZIP archive, such as .docx",
    "\xd0\xcf\x11\xe0": "an old .doc, .xls or .ppt",
}


def read_lines(file: BinaryIO) -> Generator[str, None, None]:
    """Yields lines with their ends, of plain or compressed text.

    Raises:
        InputError: If a line is not UTF-8, with its number and what the input seems to be, or gzip data is
            broken.
    """
    number, first = 0, None
    try:
        for line in decoded_lines(file):
            number += 1
            first = first or line
            yield line
    except UnicodeDecodeError as error:
        begin = first or error.object.decode("latin-1")
        kinds = [f"; it begins like {kind}" for start, kind in _NO_TEXT.items() if begin.startswith(start)]
        raise InputError(
            f"line {number + 1} of the input must be UTF-8: {error.reason}{''.join(kinds)}"
        ) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"the input must be gzip throughout, but after line {number}: {error}") from error


@dataclass(frozen=True)
class LineForm:
    """The part of a line to translate, and the form of the output.

    Attributes:
        column: The tab-separated column to translate, counted from 1; None translates the whole line.
        pairs: Whether to write source and translation side by side.
    """

    column: int | None = None
    pairs: bool = False

    def source(self, line: str, name: str) -> str:
        """Returns the part of a line to translate, with the line's end.

        Args:
            line: A line with its end.
            name: Name of the line in error messages.

        Raises:
            InputError: If the line has too few columns.
        """
        end = line_end(line)
        if self.column is None or not line.strip():
            return line if self.column is None else end
        columns = line.rstrip("\r\n").split("\t")
        if len(columns) < self.column:
            raise InputError(f"{name} has {len(columns)} tab-separated columns, but needs {self.column}")
        return columns[self.column - 1] + end

    def rendered(self, source: str, translation: str) -> str:
        """Returns the line to write; tabs inside sentences become spaces in pairs."""
        if not self.pairs:
            return translation
        return f"{_one_column(source)}\t{_one_column(translation)}\n"


@dataclass(frozen=True)
class TranslatedLines:
    """Some lines of a file and their translations.

    Attributes:
        lines: The lines to write, with their ends.
        translations: The translation of each line.
        too_long: Places of the lines that were left empty, because they are over the checkpoint's limit.
    """

    lines: Sequence[str]
    translations: "Sequence[Translation]"
    too_long: Sequence[int]

    @property
    def cut(self) -> list[int]:
        """Places of the lines whose translation its length limit ended."""
        return [place for place, each in enumerate(self.translations) if not each.is_finished]


@dataclass(frozen=True, kw_only=True)
class LineJob:
    """How the lines of a file are translated.

    Attributes:
        pair: Source and target language.
        form: The part of a line that is translated, and how the translation is written.
        options: How to decode; None uses the checkpoint's defaults.
        skips_long: Whether a line over the checkpoint's limit is left empty; otherwise it is an error.
        glossary: The translation that each term must have.
    """

    pair: Pair
    form: LineForm = field(default_factory=LineForm)
    options: DecodeOptions | None = None
    skips_long: bool = False
    glossary: Mapping[str, str] | None = None

    def translate_lines(
        self,
        translator: "Translator",
        lines: Sequence[str],
        names: Sequence[str],
        *,
        form: LineForm | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> TranslatedLines:
        """Translates some lines together.

        Args:
            translator: The checkpoint.
            lines: Lines with their ends.
            names: A name for each line in error messages.
            form: The form of these lines, if it is another than the job's.
            progress: Called with the number of sentences done since the last call.

        Raises:
            InputError: If a line cannot be translated; it is named.
        """
        form = form or self.form
        sources = list(map(form.source, lines, names))
        too_long: list[str] = []
        translations = translator.translate(
            sources,
            source=self.pair[0],
            target=self.pair[1],
            options=self.options,
            fields=names,
            too_long=too_long.append if self.skips_long else None,
            glossary=self.glossary,
            progress=progress,
        )
        written = [form.rendered(*each) for each in zip(sources, map(str, translations), strict=True)]
        skipped = set(too_long)
        return TranslatedLines(written, translations, [i for i, name in enumerate(names) if name in skipped])


def line_end(line: str) -> str:
    r"""`\n`, `\r\n`, or nothing after the last line."""
    return line[len(line.rstrip("\r\n")) :]


def _one_column(text: str) -> str:
    return text.strip().replace("\t", " ")
