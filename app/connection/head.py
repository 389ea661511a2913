"""① The head of a request and where the request ends: what llhttp does not check, and the limits."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

_MAX_HEAD_BYTES: Final = 16 * 1024
_MAX_TARGET_BYTES: Final = 8 * 1024
_MAX_FIELDS: Final = 100
# Sizes, ends and trailers around the content of chunks. A small chunk costs far more work than its bytes:
# 100,000 chunks of one byte keep the process busy for seconds.
_MAX_CHUNKING_BYTES: Final = 16 * 1024
# Ends a head, and a body in chunks.
_END: Final = b"\r\n\r\n"
_VERSIONS: Final = ("1.0", "1.1")
# A second field of one of these names makes a request ambiguous.
_SINGULAR: Final = (b"host", b"content-length", b"transfer-encoding")

_REQUEST_LINE: Final = re.compile(rb"(?:\r\n)*[!#$%&'*+.^_`|~0-9A-Za-z-]+ [!-~]+ HTTP/1\.[01]\r\n")

Field = tuple[bytes, bytes]


class WireError(Exception):
    """Bytes that are no request, or none that the service answers.

    Args:
        status: The HTTP status of the answer.
    """

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Framing:
    """Finds the end of one request in the bytes of a connection, and limits what surrounds its content.

    Attributes:
        is_in_head: Whether the head is not complete.
        content_left: Bytes that are left of a body of known length.
    """

    def __init__(self) -> None:
        self.is_in_head = True
        self.content_left = 0
        self._head_bytes = 0
        self._chunking_bytes = 0

    @property
    def has_begun(self) -> bool:
        """Returns whether any of the request has arrived."""
        return self._head_bytes > 0 or not self.is_in_head

    def is_first_piece(self, piece: bytes) -> bool:
        """Returns whether a piece that `size_of_piece` has measured is all that has arrived of the head."""
        return len(piece) == self._head_bytes

    def size_of_piece(self, buffer: bytearray, target: bytes) -> int:
        """Returns the number of next bytes that belong to this request for certain; possibly 0.

        Args:
            buffer: The bytes that have arrived and are not parsed.
            target: What has been parsed of the target.

        Raises:
            WireError: If the head, or the framing of chunks, is over a limit.
        """
        if self.content_left:
            return self.content_left
        if self._head_bytes >= _MAX_HEAD_BYTES:
            raise WireError(414 if len(target) > _MAX_TARGET_BYTES else 431)
        if self._chunking_bytes > _MAX_CHUNKING_BYTES:
            raise WireError(413)
        limit = _MAX_HEAD_BYTES - self._head_bytes
        end = buffer.find(_END, 0, limit)
        # Bytes that may be the beginning of an end are kept until the rest arrives.
        size = end + len(_END) if end >= 0 else len(buffer[:limit].rstrip(_END))
        if self.is_in_head:
            self._head_bytes += size
        else:
            # What looks like an end counts even within the content: each costs a piece.
            self._chunking_bytes += size + (len(_END) if end >= 0 else 0)
        return size

    def end_head(self, length: int | None) -> None:
        """Record that the head is complete.

        Args:
            length: Bytes of the body; None if it comes in chunks.
        """
        self.is_in_head = False
        self.content_left = length or 0

    def count_content(self, size: int) -> None:
        """Record that so many bytes were content."""
        if self.content_left:
            self.content_left -= size
        else:
            self._chunking_bytes -= size


def body_length(
    method: bytes, target: bytes, version: str, fields: Sequence[Field], first_values: Mapping[bytes, bytes]
) -> int | None:
    """Bytes that follow a head; None if they come in chunks.

    Args:
        method: As written.
        target: As written.
        version: Such as `1.1`.
        fields: Names in lower case; each value is known to be well formed.
        first_values: The first value of each name.

    Raises:
        WireError: If the head is ambiguous, or over a limit.
    """
    if version not in _VERSIONS:
        raise WireError(505)
    if len(target) > _MAX_TARGET_BYTES:
        raise WireError(414)
    if len(fields) > _MAX_FIELDS:
        raise WireError(431)
    if method == b"CONNECT" or (b"host" not in first_values and version == "1.1"):
        raise WireError(400)
    if len(first_values) < len(fields):
        _refuse_ambiguity(fields)
    coding = first_values.get(b"transfer-encoding")
    if coding is None:
        return int(first_values.get(b"content-length", 0))
    if coding.lower() != b"chunked" or version == "1.0" or b"content-length" in first_values:
        raise WireError(400)
    return None


def _refuse_ambiguity(fields: Sequence[Field]) -> None:
    names = [name for name, _ in fields if name in _SINGULAR]
    if len(set(names)) < len(names):
        raise WireError(400)


def begins_with_request_line(data: bytes) -> bool:
    """Returns whether data begins with a well-formed request line, of any method."""
    return _REQUEST_LINE.match(data) is not None
