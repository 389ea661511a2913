"""Writing large files, plain or gzip."""

import gzip
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import click

STANDARD = "-"
"""Name that stands for standard input or output."""
GZIP_LEVEL = 6
"""Compression level; higher levels are slower, and files hardly smaller."""


@contextmanager
def written(path: str) -> Iterator[BinaryIO]:
    """Opens a file to write, or standard output for `-`; compresses if the name ends in .gz."""
    if path.endswith(".gz"):
        with gzip.open(path, "wb", compresslevel=GZIP_LEVEL) as packed:
            yield cast(BinaryIO, packed)
    else:
        with click.open_file(path, "wb") as file:
            yield cast(BinaryIO, file)


def is_file_of(file: BinaryIO | Path, path: Path) -> bool:
    """Returns whether a path is the regular file that is read, directly or through a link."""
    try:
        read = os.stat(file if isinstance(file, Path) else file.fileno())
        named = path.stat()
    except OSError:  # there is no such file, or the input is not a file
        return False
    return stat.S_ISREG(named.st_mode) and os.path.samestat(read, named)
