"""Lines of large files, plain or .gz, in and out; an output that an interrupted command goes on with."""

import gzip
import shutil
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import click

from model.errors import InputError

STANDARD = "-"
"""Standard input or output, in place of a file."""
_GZIP_LEVEL = 6


def read_lines(file: BinaryIO) -> Iterator[str]:
    """Lines with their ends, split at line feeds alone; a file whose name ends in .gz is unpacked.

    Raises:
        InputError: If a line is not UTF-8, by its number, or the file is not gzip throughout.
    """
    is_packed = str(getattr(file, "name", "")).endswith(".gz")
    number = 0
    try:
        for line in gzip.GzipFile(fileobj=file) if is_packed else file:
            number += 1
            yield line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"line {number} of the input must be UTF-8: {error.reason}") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"the input must be gzip throughout, but after line {number}: {error}") from error


@contextmanager
def written(path: str) -> Iterator[BinaryIO]:
    """A file to write, or standard output for `-`; packed where the name ends in .gz."""
    if path.endswith(".gz"):
        with gzip.open(path, "wb", compresslevel=_GZIP_LEVEL) as packed:
            yield cast(BinaryIO, packed)
    else:
        with click.open_file(path, "wb") as file:
            yield cast(BinaryIO, file)


class ResumableFile:
    """A file that is there under its name only when it is whole; until then, as plain text, as `NAME.part`.

    Args:
        path: The file; packed in the end where its name ends in .gz.

    Attributes:
        lines: Whole lines that an earlier command left in the part.
        is_whole: Whether there is nothing to go on with: an earlier command came to its end.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(f"{path.name}.part")
        self.is_whole = path.exists() and not self._part.exists()
        self.lines = self._keep_whole_lines() if self._part.exists() else 0

    @contextmanager
    def appended(self) -> Iterator[BinaryIO]:
        """Where to write the rest; when the block ends well the file is whole."""
        with self._part.open("ab") as file:
            yield file
        if self._path.suffix == ".gz":
            self._pack()
        else:
            self._part.replace(self._path)

    def _pack(self) -> None:
        packed = self._path.with_name(f".{self._path.name}.writing")
        with (
            self._part.open("rb") as source,
            gzip.open(packed, "wb", compresslevel=_GZIP_LEVEL) as target,
        ):
            shutil.copyfileobj(source, target)
        packed.replace(self._path)
        self._part.unlink()

    def _keep_whole_lines(self) -> int:
        """Cut off a line that was being written, and count the others."""
        count = end = 0
        with self._part.open("r+b") as file:
            for line in file:
                if line.endswith(b"\n"):
                    count, end = count + 1, end + len(line)
            file.truncate(end)
        return count


def shows_progress(wanted: bool | None) -> bool:
    """Whether to show how far it is: as was asked for, otherwise where standard error is a terminal."""
    return sys.stderr.isatty() if wanted is None else wanted
