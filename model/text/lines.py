"""ⓐ Lines of a file or of standard input, plain or packed, as a stream."""

import gzip
import io
from collections.abc import Iterator
from typing import BinaryIO, cast

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
