"""① Where the body of a request ends: after so many bytes, or after the last of its chunks."""

import re
from collections.abc import Callable
from typing import Final, Protocol

from app.api.head import MAX_HEAD_BYTES, WireError, parse_field

# A crumb costs far more work than its bytes: 100,000 chunks of one byte keep the process busy for seconds.
_MAX_CHUNKS: Final = 4096
_MAX_SIZE_LINE: Final = 256
_SIZE_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t -~\x80-\xff]*)?")
_TRAILER_LINE: Final = re.compile(rb"[\t -~\x80-\xff]*")


class Body(Protocol):
    """A body that is on its way."""

    @property
    def is_complete(self) -> bool:
        """Whether all of it was taken."""

    def take(self, buffer: bytearray) -> bytes:
        """Remove what belongs to the body from the front of a buffer, and give its content.

        Raises:
            WireError: If it is not framed as it should be.
        """


def body_of(length: int | None) -> Body:
    """A body of this many bytes; None stands for chunks."""
    return ChunkedBody() if length is None else SizedBody(length)


class SizedBody:
    """A body whose length was told beforehand."""

    def __init__(self, length: int) -> None:
        self._missing = length

    @property
    def is_complete(self) -> bool:
        """See Body."""
        return self._missing == 0

    def take(self, buffer: bytearray) -> bytes:
        """See Body."""
        content = bytes(buffer[: self._missing])
        del buffer[: len(content)]
        self._missing -= len(content)
        return content


class ChunkedBody:
    """A body in chunks, each with its size before it; the fields behind the last one are dropped."""

    def __init__(self) -> None:
        self.is_complete = False
        self._num_chunks = 0
        self._missing = 0
        self._trailer_bytes = 0
        self._step: Callable[[bytearray, bytearray], bool] = self._take_size

    def take(self, buffer: bytearray) -> bytes:
        """See Body."""
        content = bytearray()
        while not self.is_complete and self._step(buffer, content):
            pass
        return bytes(content)

    # Each step says whether it could be done with what the buffer held.

    def _take_size(self, buffer: bytearray, _content: bytearray) -> bool:
        line = _take_line(buffer, _MAX_SIZE_LINE)
        if line is None:
            return False
        match = _SIZE_LINE.fullmatch(line)
        if match is None:
            raise WireError(400)
        self._num_chunks += 1
        if self._num_chunks > _MAX_CHUNKS:
            raise WireError(413)
        self._missing = int(match[1], 16)
        self._step = self._take_content if self._missing else self._take_trailer
        return True

    def _take_content(self, buffer: bytearray, content: bytearray) -> bool:
        part = buffer[: self._missing]
        del buffer[: len(part)]
        content += part
        self._missing -= len(part)
        if self._missing:
            return False
        self._step = self._take_end
        return True

    def _take_end(self, buffer: bytearray, _content: bytearray) -> bool:
        if len(buffer) < 2:
            return False
        if not buffer.startswith(b"\r\n"):
            raise WireError(400)
        del buffer[:2]
        self._step = self._take_size
        return True

    def _take_trailer(self, buffer: bytearray, _content: bytearray) -> bool:
        line = _take_line(buffer, MAX_HEAD_BYTES)
        if line is None:
            return False
        self._trailer_bytes += len(line)
        if self._trailer_bytes > MAX_HEAD_BYTES:
            raise WireError(431)
        if line and not _TRAILER_LINE.fullmatch(line):
            raise WireError(400)
        self.is_complete = not line
        if line:
            parse_field(line)
        return True


def _take_line(buffer: bytearray, limit: int) -> bytes | None:
    end = buffer.find(b"\r\n", 0, limit + 2)
    if end < 0:
        if len(buffer) > limit:
            raise WireError(400)
        return None
    line = bytes(buffer[:end])
    del buffer[: end + 2]
    return line
