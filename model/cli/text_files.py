"""Lines of large files, plain or .gz, in and out."""

import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import click

from model.errors import InputError
from model.text.lines import decoded_lines

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
