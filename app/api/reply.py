"""⑨ The bytes of an answer, from the messages that ASGI makes of it."""

from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from app.api.head import Field, Head

_CLOSE: Final = (b"connection", b"close")
_CHUNKED: Final = (b"transfer-encoding", b"chunked")
_LAST_CHUNK: Final = b"0\r\n\r\n"
_WITHOUT_BODY: Final = (204, 304)


class Reply:
    """The answer to one request; its head leaves together with the first part of its body.

    Args:
        request: What is answered.
        defaults: Fields that every answer carries.

    Attributes:
        has_begun: Whether the head has left.
        closes: Whether the client was told that the connection ends.
    """

    def __init__(self, request: Head, defaults: Iterable[Field]) -> None:
        self.has_begun = False
        self.closes = False
        self._request = request
        self._status: int | None = None
        self._fields = [*defaults]
        self._missing: int | None = None
        self._is_chunked = False

    def start(self, status: int, fields: Iterable[Field]) -> None:
        """Take what the head is to say.

        Raises:
            RuntimeError: If that is known already.
        """
        if self._status is not None:
            raise RuntimeError("an answer starts once")
        self._status = status
        self._fields += fields

    def part(self, body: bytes, *, is_last: bool, closes: bool) -> bytes:
        """Bytes of a part of the body, behind those of the head if they have not left yet.

        Args:
            body: The part.
            is_last: Whether none follows.
            closes: Whether the connection is to end behind this answer; the first part decides.

        Raises:
            RuntimeError: If the answer was not started, or its length is not what its head says.
        """
        head = b"" if self.has_begun else self._head(len(body) if is_last else None, closes)
        if self._request.method == "HEAD" or self._status in _WITHOUT_BODY:
            return head
        if self._is_chunked:
            return head + _chunk(body) + (_LAST_CHUNK if is_last else b"")
        self._count(len(body), is_last)
        return head + body

    def _head(self, length: int | None, closes: bool) -> bytes:
        """The head of an answer of this many bytes, None if that is not known yet."""
        if self._status is None:
            raise RuntimeError("an answer starts with its status")
        self.has_begun = True
        self._frame(length)
        # Who is not told the length can only tell the end of the answer from that of the connection.
        is_endless = self._missing is None and not self._is_chunked
        said = any(name == b"connection" and value.lower() == b"close" for name, value in self._fields)
        self.closes = closes or said or is_endless
        if self.closes and not said:
            self._fields.append(_CLOSE)
        return _written(self._status, self._fields)

    def _frame(self, length: int | None) -> None:
        """Decide how the client finds the end of the body."""
        declared = next((value for name, value in self._fields if name == b"content-length"), None)
        if declared is not None:
            self._missing = int(declared)
        elif self._status in _WITHOUT_BODY:
            self._missing = 0
        elif length is not None:
            self._missing = length
            self._fields.append((b"content-length", b"%d" % length))
        elif self._request.version != "1.0":
            self._is_chunked = True
            self._fields.append(_CHUNKED)

    def _count(self, sent: int, is_last: bool) -> None:
        if self._missing is not None:
            self._missing -= sent
            if self._missing < 0 or (is_last and self._missing > 0):
                raise RuntimeError("an answer must have the length that its head says")


def _chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body) if body else b""


def _written(status: int, fields: list[Field]) -> bytes:
    lines = [_status_line(status), *(b"%b: %b\r\n" % field for field in fields), b"\r\n"]
    head = b"".join(lines)
    if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
        raise RuntimeError("a header field must not hold line breaks")
    return head


@lru_cache(maxsize=64)
def _status_line(status: int) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:  # such as nginx's 499
        phrase = "Unknown"
    return f"HTTP/1.1 {status} {phrase}\r\n".encode("ascii")
