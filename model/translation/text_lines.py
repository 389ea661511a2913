"""Lines of large text files, plain or gzip, and the part of a line that is translated."""

import gzip
import zlib
from collections.abc import Generator
from dataclasses import dataclass
from typing import BinaryIO

from model.errors import InputError
from model.files import decoded_lines


def read_lines(file: BinaryIO) -> Generator[str, None, None]:
    """Yields lines with their ends, of plain or compressed text.

    Raises:
        InputError: If a line is not UTF-8, with its number, or gzip data is broken.
    """
    number = 0
    try:
        for line in decoded_lines(file):
            number += 1
            yield line
    except UnicodeDecodeError as error:
        raise InputError(f"line {number + 1} of the input must be UTF-8: {error.reason}") from error
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


def line_end(line: str) -> str:
    r"""`\n`, `\r\n`, or nothing after the last line."""
    return line[len(line.rstrip("\r\n")) :]


def _one_column(text: str) -> str:
    return text.strip().replace("\t", " ")
