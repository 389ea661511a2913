"""One client's connection, as cheap as Python allows, and the requests that go over it."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

_HEAD = "POST {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {length}\r\n\r\n"
_JSON = {"Content-Type": "application/json"}
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length:"
_RETRY_AFTER = b"\r\nretry-after:"
_CLOSE = b"\r\nconnection: close"


class Answer(NamedTuple):
    """What came back.

    Attributes:
        status: HTTP status.
        head: Status line and fields, in lower case.
        body: Content.
    """

    status: int
    head: bytes
    body: bytes

    @property
    def says_when_to_return(self) -> bool:
        """Whether it has a Retry-After."""
        return _RETRY_AFTER in self.head

    @property
    def is_last(self) -> bool:
        """Whether the server closes the connection behind it."""
        return _CLOSE in self.head


def message(host: str, path: str, body: object, headers: Mapping[str, str] | None = None) -> bytes:
    """A whole HTTP request with a JSON body.

    Args:
        host: Whom it is for.
        path: Where to.
        body: Becomes JSON, unless it is text, which is taken as it is.
        headers: Fields beside the content type.
    """
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    content = text.encode()
    fields = "".join(f"{name}: {value}\r\n" for name, value in (_JSON | dict(headers or {})).items())
    return _HEAD.format(path=path, host=host, headers=fields, length=len(content)).encode() + content


class Connection(asyncio.Protocol):
    """A connection that is kept open, with one request at a time.

    Args:
        opened: Called once it stands.
        answered: Called with each answer.
        lost: Called when it ended, with the reason if it was a fault.
    """

    def __init__(
        self,
        opened: Callable[[], object],
        answered: Callable[[Answer], object],
        lost: Callable[[Exception | None], object],
    ) -> None:
        self._opened, self._answered, self._lost = opened, answered, lost
        self._received = b""

    def send(self, request: bytes) -> None:
        """Send a request; the one before must have been answered."""
        self._transport.write(request)

    def close(self) -> None:
        """Hang up, whatever is on its way."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
        self._opened()

    def data_received(self, data: bytes) -> None:
        """Hand an answer on once it is whole."""
        self._received += data
        head_end = self._received.find(_END_OF_HEAD)
        if head_end < 0:
            return
        head = self._received[:head_end].lower()
        body_start = head_end + len(_END_OF_HEAD)
        if len(self._received) < body_start + _content_length(head):
            return
        body, self._received = self._received[body_start:], b""
        self._answered(Answer(int(head[9:12]), head, body))

    def connection_lost(self, error: Exception | None) -> None:
        """Whoever waits must not wait for ever."""
        self._lost(error)


def _content_length(head: bytes) -> int:
    start = head.index(_LENGTH) + len(_LENGTH)
    return int(head[start:].split(b"\r\n", 1)[0])
