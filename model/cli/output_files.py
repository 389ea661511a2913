"""Output files, plain or gzip: written at once, or continued by the same command after an interruption."""

import gzip
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import click

from model.cli.main import Misuse
from model.files import write_text_atomically

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


class Progress(NamedTuple):
    """How many lines of an input were read, and their SHA-256 as UTF-8, in hexadecimal."""

    lines: int
    sha256: str


class HashedLines(Iterator[str]):
    """The lines of an input, counted and hashed as they are read."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._count = 0
        self._digest = hashlib.sha256()

    def __next__(self) -> str:
        line = next(self._lines)
        self._count += 1
        self._digest.update(line.encode())
        return line

    @property
    def progress(self) -> Progress:
        """The lines that were read so far."""
        return Progress(self._count, self._digest.hexdigest())


class ResumableOutput:
    """A file that exists under its name only when it is complete; until then it is `NAME.part`, uncompressed.

    `NAME.part.jsonl` records the command in its first line, and in further lines the input that has been
    translated. Both files are removed when the output is complete.

    Args:
        path: The output; compressed at the end if its name ends in .gz.

    Attributes:
        is_complete: Whether an earlier command has completed the output.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(f"{path.name}.part")
        self._log = path.with_name(f"{path.name}.part.jsonl")
        self.is_complete = path.exists() and not self._part.exists()

    def resume(self, command: Mapping[str, object], lines: HashedLines) -> int:
        """Keeps the output of an earlier call of this command, and skips the input lines of that output.

        Args:
            command: Everything that the output depends on except the input: JSON values by name.
            lines: The input, from its first line on.

        Returns:
            The number of lines that are done.

        Raises:
            Misuse: If another or an unknown command began the output, or the lines that were translated have
                changed.
        """
        first_command, log = self._read_log()
        num_written = sum(line.endswith(b"\n") for line in self._part_lines())
        if num_written and first_command is None:
            self._refuse(f"{self._log.name} is missing, which records the command that began it")
        log = [each for each in log if each.lines <= num_written]
        done = log[-1] if log else lines.progress
        if done.lines and first_command != command:
            self._refuse(f"it was begun with {_differences(first_command or {}, command)}")
        for _ in islice(lines, done.lines):
            pass
        if lines.progress != done:
            self._refuse(f"the first {done.lines} lines of the input are not those it was begun with")
        length = sum(map(len, islice(self._part_lines(), done.lines)))
        with self._part.open("ab") as file:
            file.truncate(length)
        records = [dict(command), *(each._asdict() for each in log)]
        write_text_atomically(self._log, "".join(f"{json.dumps(record)}\n" for record in records))
        return done.lines

    @contextmanager
    def appended(self) -> Iterator[BinaryIO]:
        """Yields a file for the rest of the output, which is complete if the block raises no error."""
        with self._part.open("ab") as file:
            yield file
        if self._path.suffix == ".gz":
            compressed = self._path.with_name(f".{self._path.name}.writing")
            with (
                self._part.open("rb") as source,
                gzip.open(compressed, "wb", compresslevel=GZIP_LEVEL) as target,
            ):
                shutil.copyfileobj(source, target)
            compressed.replace(self._path)
            self._part.unlink()
        else:
            self._part.replace(self._path)
        self._log.unlink(missing_ok=True)

    def record(self, progress: Progress) -> None:
        """Records that the output so far is the translation of these lines."""
        with self._log.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(progress._asdict())}\n")

    def _read_log(self) -> tuple[dict[str, Any] | None, list[Progress]]:
        """Returns the command and the progress; a last line that a kill has cut short does not count."""
        if not self._log.exists():
            return None, []
        with self._log.open(encoding="utf-8") as file:
            command, *log = [json.loads(line) for line in file if line.endswith("\n")]
        return command, [Progress(**each) for each in log]

    def _part_lines(self) -> Iterator[bytes]:
        if self._part.exists():
            with self._part.open("rb") as file:
                yield from file

    def _refuse(self, reason: str) -> None:
        advice = "repeat the command it was begun with, or remove it to begin again"
        raise Misuse(f"cannot continue {self._part}: {reason}; {advice}")


def _differences(before: Mapping[str, object], now: Mapping[str, object]) -> str:
    """Returns all values that differ: `--beam-size 4, now 5; …`."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return "; ".join(f"{name} {before.get(name)}, now {now.get(name)}" for name in names)
