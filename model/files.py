"""Files and folders that appear whole or not at all, and lines of files that may be compressed."""

import ctypes
import gzip
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder beside `folder`, and put it in its place when the block ends well.

    Where `folder` is a link, what it leads to is written, and the link stays.

    An existing folder is exchanged with the new one in a single system call (renameat2 on Linux),
    so that at every moment, a kill or a power cut included, `folder` is one of the two, complete.
    Where the file system cannot exchange, the old folder is first renamed to `.NAME.previous`;
    after a crash between the two renames it is there, until somebody calls `restore`.
    What an earlier crash left behind is put right first. One writer a folder at a time.

    Raises:
        OSError: Of `folder`, if the disk is full or the place cannot be written to; it is as it was,
            and nothing partial is left.
    """
    folder = folder.resolve()
    temporary = _beside(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        restore(folder)
        _remove(temporary)
        temporary.mkdir()
        yield temporary
        _flush_to_disk(temporary)
        _put_in_place(temporary, folder)
    except OSError as error:
        _undo(temporary, folder)
        raise OSError(error.errno, error.strerror or str(error), str(folder)) from error
    except BaseException:
        _undo(temporary, folder)
        raise


def write_text_atomically(path: Path, text: str) -> None:
    """Write a file that is never seen half written, and is on the disk afterwards.

    Raises:
        OSError: If it cannot be written; what was there is kept.
    """
    unfinished = _beside(path)
    try:
        unfinished.write_text(text, encoding="utf-8")
        _flush(unfinished)
        unfinished.replace(path)
        _flush(path.parent)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def restore(folder: Path) -> None:
    """Put the old folder back if a crash came between the two renames; for whoever writes it.

    Raises:
        OSError: If the file system forbids it.
    """
    previous = _previous(folder)
    if previous.exists() and not folder.exists():
        previous.rename(folder)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.writing")


def _previous(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.previous")


def _put_in_place(temporary: Path, folder: Path) -> None:
    if not folder.exists():
        temporary.rename(folder)
    elif _exchange(temporary, folder):
        _remove(temporary)  # holds the old folder now
    else:
        previous = _previous(folder)
        _remove(previous)
        folder.rename(previous)
        temporary.rename(folder)
        _remove(previous)
    _flush(folder.parent)


def _undo(temporary: Path, folder: Path) -> None:
    with suppress(OSError):  # what went wrong is told; a later `restore` may still do it
        restore(folder)
    _remove(temporary)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two paths atomically; False where the system or the file system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    paths = os.fsencode(one), os.fsencode(other)
    return bool(renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0)


def _flush_to_disk(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        if not path.is_symlink():
            _flush(path)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


_GZIP_MAGIC = b"\x1f\x8b"


def decoded_lines(file: BinaryIO) -> Iterator[str]:
    """Lines with their ends, split at line feeds alone, so that U+2028 stays in a sentence.

    What begins as gzip does is unpacked, whatever its name; a byte order mark is no part of the first line.

    Raises:
        UnicodeDecodeError: If a line is not UTF-8.
        OSError, EOFError, zlib.error: If the file cannot be read, or is not gzip throughout.
    """
    opened = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file))
    try:
        is_packed = opened.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
        for number, line in enumerate(gzip.GzipFile(fileobj=opened) if is_packed else opened):
            yield line.decode("utf-8" if number else "utf-8-sig")
    finally:
        if opened is not file:
            opened.detach()  # or it would close the file, which is the caller's
