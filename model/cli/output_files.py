"""Output files, plain or gzip: written at once, or continued by the same command after an interruption."""

import gzip
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import click

from model.cli.main import Misuse
from model.files import write_text_atomically

STANDARD = "-"
"""Name that stands for standard input or output."""
GZIP_LEVEL = 6
"""Compression level; higher levels are slower, and files hardly smaller."""


@contextmanager
def written(path: str) -> Iterator[BinaryIO]:
    """Opens a file to write, or standard output for `-`; compresses if the name ends in .gz.

    A regular file is `NAME.part` until the block has ended without an error, so that neither a reader nor
    `--resume` takes a part for the whole.

    Raises:
        Misuse: If `--resume` can continue an output of this name.
    """
    target = Path(path).resolve()
    is_regular = path != STANDARD and (target.is_file() or not target.exists())
    part, record = _part(target), _record(target)
    if is_regular and part.exists() and record.exists():
        raise Misuse(f"{part} is the begin of an output that --resume continues; remove it to begin again")
    try:
        opened = click.open_file(str(part) if is_regular else path, "wb")
    except OSError as error:
        error.filename = path
        raise
    with opened as file:
        if path.endswith(".gz"):
            with gzip.GzipFile(target.name, "wb", GZIP_LEVEL, file) as packed:
                yield cast(BinaryIO, packed)
        else:
            yield cast(BinaryIO, file)
    if is_regular:
        part.replace(target)


def is_file_of(file: BinaryIO | Path, path: Path) -> bool:
    """Returns whether a path is the regular file that is read, directly or through a link."""
    try:
        read = os.stat(file if isinstance(file, Path) else file.fileno())
        named = path.stat()
    except OSError:  # there is no such file, or the input is not a file
        return False
    return stat.S_ISREG(named.st_mode) and os.path.samestat(read, named)


class ResumableOutput:
    """A file that exists under its name only when it is complete; until then it is `NAME.part`, uncompressed.

    `NAME.part.json` records the command, how many lines of the input have been translated, and their SHA-256.
    Both files are removed when the output is complete.

    Args:
        path: The output; compressed at the end if its name ends in .gz.

    Attributes:
        is_complete: Whether an earlier command has completed the output.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = _part(path)
        self._record = _record(path)
        self._command: dict[str, object] = {}
        self._done, self._digest = 0, hashlib.sha256()
        self.is_complete = path.exists() and not self._part.exists()

    def resume(self, command: Mapping[str, object], lines: Iterator[str]) -> int:
        """Keeps the output of an earlier call of this command, and skips the input lines of that output.

        Args:
            command: Everything that the output depends on except the input: JSON values by name.
            lines: The input, from its first line on.

        Returns:
            The number of lines that are done.

        Raises:
            Misuse: If another or an unknown command began the output, if some of it has been lost, or if the
                lines that were translated have changed.
        """
        before: dict[str, Any] = (
            json.loads(self._record.read_text("utf-8")) if self._record.exists() else {"lines": 0}
        )
        with self._part.open("ab+") as file:
            if file.tell() and "command" not in before:
                self._refuse(f"{self._record.name} is missing, which records the command that began it")
            file.seek(0)
            kept, size, last = 0, 0, b""
            for last in islice(file, before["lines"]):
                kept, size = kept + 1, size + len(last)
            if 0 < kept < before["lines"]:
                self._refuse(f"it has {kept} lines, but {self._record.name} records {before['lines']}")
            self._done = kept
            if self._done and before["command"] != command:
                self._refuse(f"it was begun with {_differences(before['command'], command)}")
            line = ""
            for line in islice(lines, self._done):
                self._digest.update(line.encode())
            if self._done and self._digest.hexdigest() != before["sha256"]:
                self._refuse(f"the first {self._done} lines of the input are not those it was begun with")
            if line.endswith("\n") and not last.endswith(b"\n"):
                self._refuse(f"its line {self._done} was cut short")
            file.truncate(size)
        self._command = dict(command)
        self._write_record()
        return self._done

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
        self._record.unlink(missing_ok=True)

    def record(self, file: BinaryIO, lines: Sequence[str]) -> None:
        """Records that the output in a file is complete up to and with the translation of these lines."""
        file.flush()
        os.fsync(file.fileno())
        self._digest.update("".join(lines).encode())
        self._done += len(lines)
        self._write_record()

    def _write_record(self) -> None:
        values = {"command": self._command, "lines": self._done, "sha256": self._digest.hexdigest()}
        write_text_atomically(self._record, json.dumps(values))

    def _refuse(self, reason: str) -> None:
        advice = "repeat the command it was begun with, or remove it to begin again"
        raise Misuse(f"cannot continue {self._part}: {reason}; {advice}")


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _record(path: Path) -> Path:
    return path.with_name(f"{path.name}.part.json")


def _differences(before: Mapping[str, object], now: Mapping[str, object]) -> str:
    """Returns all values that differ: `--beam-size 4, now 5; …`."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return "; ".join(f"{name} {before.get(name)}, now {now.get(name)}" for name in names)
