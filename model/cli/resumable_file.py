"""An output that an interrupted command goes on with, if it is the same command and reads the same text."""

import gzip
import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from model.cli.main import Misuse
from model.cli.text_files import GZIP_LEVEL
from model.files import write_text_atomically


@dataclass(frozen=True)
class Mark:
    """How far a text was read, and what it was so far.

    Attributes:
        lines: Read.
        sha256: Of them, as UTF-8, in hexadecimal digits.
    """

    lines: int
    sha256: str


class MarkedLines(Iterator[str]):
    """Lines of a text, with a mark of those that were taken."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._taken = 0
        self._digest = hashlib.sha256()

    def __next__(self) -> str:
        line = next(self._lines)
        self._taken += 1
        self._digest.update(line.encode())
        return line

    @property
    def mark(self) -> Mark:
        """Of the lines that were taken so far."""
        return Mark(self._taken, self._digest.hexdigest())


class ResumableFile:
    """A file that is there under its name only when it is whole; until then, as plain text, as `NAME.part`.

    `NAME.part.jsonl` says what command writes it, and from time to time how much of what input it has.
    Both go when the file is whole.

    Args:
        path: The file; packed in the end where its name ends in .gz.

    Attributes:
        is_whole: Whether there is nothing to go on with: an earlier command came to its end.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(f"{path.name}.part")
        self._notes = path.with_name(f"{path.name}.part.jsonl")
        self.is_whole = path.exists() and not self._part.exists()

    def go_on(self, command: Mapping[str, object], lines: MarkedLines) -> int:
        """Keep what this command has written before, and skip the lines which that was made of.

        Args:
            command: All that the output depends on but the input: what `json` can hold, by its name.
            lines: Of the input, from the first one on.

        Returns:
            How many lines are done.

        Raises:
            Misuse: If another command, or one that nothing is known of, began the file, or the lines that
                were translated are others.
        """
        begun, marks = self._noted()
        written = sum(line.endswith(b"\n") for line in self._part_lines())
        if written and begun is None:
            self._refuse(f"{self._notes.name} is missing, which tells how it was begun")
        kept = [mark for mark in marks if mark.lines <= written]
        done = kept[-1] if kept else lines.mark
        if done.lines and begun != command:
            self._refuse(f"it was begun with {_differences(begun or {}, command)}")
        for _ in islice(lines, done.lines):
            pass
        if lines.mark != done:
            self._refuse(f"the first {done.lines} lines of the input are not those it was begun with")
        self._cut(done.lines)
        notes = [dict(command), *map(vars, kept)]
        write_text_atomically(self._notes, "".join(f"{json.dumps(note)}\n" for note in notes))
        return done.lines

    @contextmanager
    def appended(self) -> Iterator[BinaryIO]:
        """Where to write the rest; when the block ends well the file is whole."""
        with self._part.open("ab") as file:
            yield file
        if self._path.suffix == ".gz":
            self._pack()
        else:
            self._part.replace(self._path)
        self._notes.unlink(missing_ok=True)

    def note(self, mark: Mark) -> None:
        """Remember that what is written so far was made of these lines."""
        with self._notes.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(vars(mark))}\n")

    def _noted(self) -> tuple[dict[str, Any] | None, list[Mark]]:
        """The command, and the marks; a kill may have cut the last line short."""
        if not self._notes.exists():
            return None, []
        with self._notes.open(encoding="utf-8") as file:
            command, *marks = [json.loads(line) for line in file if line.endswith("\n")]
        return command, [Mark(**mark) for mark in marks]

    def _part_lines(self) -> Iterator[bytes]:
        if self._part.exists():
            with self._part.open("rb") as file:
                yield from file

    def _cut(self, lines: int) -> None:
        """Leave so many lines of the part; what follows is going to be written again."""
        length = sum(map(len, islice(self._part_lines(), lines)))
        with self._part.open("ab") as file:
            file.truncate(length)

    def _refuse(self, why: str) -> None:
        advice = "give the command it was begun with, or remove it to begin anew"
        raise Misuse(f"cannot go on with {self._part}: {why}; {advice}")

    def _pack(self) -> None:
        packed = self._path.with_name(f".{self._path.name}.writing")
        with (
            self._part.open("rb") as source,
            gzip.open(packed, "wb", compresslevel=GZIP_LEVEL) as target,
        ):
            shutil.copyfileobj(source, target)
        packed.replace(self._path)
        self._part.unlink()


def _differences(begun: Mapping[str, object], now: Mapping[str, object]) -> str:
    """`--beam-size 4, now 5; …` of all that differ."""
    names = [name for name in {**begun, **now} if begun.get(name) != now.get(name)]
    return "; ".join(f"{name} {begun.get(name)}, now {now.get(name)}" for name in names)
