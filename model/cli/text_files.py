"""Lines of large files, plain or .gz, in and out, and what of a line is translated."""

import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import click

from model.errors import InputError
from model.files import decoded_lines

STANDARD = "-"
"""Standard input or output, in place of a file."""
GZIP_LEVEL = 6
"""Of what is written: further ones are slower and hardly smaller."""


def read_lines(file: BinaryIO) -> Iterator[str]:
    """Lines with their ends, of plain or packed text.

    Raises:
        InputError: If a line is not UTF-8, by its number, or the file is not gzip throughout.
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


@contextmanager
def written(path: str) -> Iterator[BinaryIO]:
    """A file to write, or standard output for `-`; packed where the name ends in .gz."""
    if path.endswith(".gz"):
        with gzip.open(path, "wb", compresslevel=GZIP_LEVEL) as packed:
            yield cast(BinaryIO, packed)
    else:
        with click.open_file(path, "wb") as file:
            yield cast(BinaryIO, file)


def is_file_of(file: BinaryIO | Path, path: Path) -> bool:
    """Whether a path leads to the very file that is read, be it by a link; never of devices and pipes."""
    try:
        read = os.stat(file if isinstance(file, Path) else file.fileno())
        named = path.stat()
    except OSError:  # no file has that name yet, or what is read is none
        return False
    return stat.S_ISREG(named.st_mode) and os.path.samestat(read, named)


@dataclass(frozen=True)
class LineForm:
    """Plain lines, a column, or pairs.

    Attributes:
        column: The tab-separated column to translate, counted from 1; None takes the whole line.
        pairs: Write source and translation side by side.
    """

    column: int | None = None
    pairs: bool = False

    def source(self, line: str, name: str) -> str:
        """What to translate of a line, with the line's end.

        Args:
            line: With its end.
            name: What to call it in an error.

        Raises:
            InputError: If it has too few columns.
        """
        end = line_end(line)
        if self.column is None or not line.strip():
            return line if self.column is None else end
        columns = line.rstrip("\r\n").split("\t")
        if len(columns) < self.column:
            raise InputError(f"{name} has {len(columns)} tab-separated columns, but needs {self.column}")
        return columns[self.column - 1] + end

    def rendered(self, source: str, translation: str) -> str:
        """The line to write; a tab inside a sentence would begin another column."""
        if not self.pairs:
            return translation
        return f"{_one_column(source)}\t{_one_column(translation)}\n"


def line_end(line: str) -> str:
    r"""`\n`, `\r\n`, or nothing after the last line."""
    return line[len(line.rstrip("\r\n")) :]


def _one_column(text: str) -> str:
    return text.strip().replace("\t", " ")
