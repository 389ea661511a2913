"""Atomic writes of files and folders, and the lines of files that may be compressed."""

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

_GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yields a temporary folder next to `folder`, which replaces `folder` if the block raises no error.

    If `folder` is a symbolic link, the folder that it points to is replaced, and the link stays.

    An existing folder is exchanged with the new one in one system call (renameat2 on Linux), so that
    `folder` is one of the two, complete, at every moment, even after a kill or a power cut. If the file
    system cannot exchange folders, the old one is first renamed to `.NAME.previous`; after a crash between
    the two renames, `restore` brings it back. Leftovers of an earlier crash are removed first. A folder may
    have only one writer at a time.

    Raises:
        OSError: If the disk is full or the folder cannot be written; it is unchanged, and nothing partial is
            left.
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
    """Writes a file in one step, and flushes it to the disk.

    Raises:
        OSError: If the file cannot be written; it is unchanged.
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
    """Brings the old folder back after a crash between the two renames of `atomic_folder`.

    Only the writer of the folder may call this.

    Raises:
        OSError: If the folder cannot be renamed.
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
    with suppress(OSError):  # the first error is reported, and a later `restore` may succeed
        restore(folder)
    _remove(temporary)


def _exchange(one: Path, other: Path) -> bool:
    """Exchanges two paths atomically; returns False if the system or the file system cannot."""
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


def decoded_lines(file: BinaryIO) -> Iterator[str]:
    """Yields the lines of a file with their ends, split only at line feeds: U+2028 stays in a sentence.

    A file that begins like gzip is decompressed, whatever its name. A byte order mark is removed.

    Raises:
        UnicodeDecodeError: If a line is not UTF-8.
        OSError, EOFError, zlib.error: If the file cannot be read, or its gzip data is broken.
    """
    opened = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file))
    try:
        is_packed = opened.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
        for number, line in enumerate(gzip.GzipFile(fileobj=opened) if is_packed else opened):
            yield line.decode("utf-8" if number else "utf-8-sig")
    finally:
        if opened is not file:
            opened.detach()  # otherwise it would close the caller's file
