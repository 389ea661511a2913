"""① ⑨ One request and its answer, as an ASGI application receives and sends them."""

import asyncio
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Message, Scope

if TYPE_CHECKING:
    from app.connection.protocol import Protocol

logger = logging.getLogger(__name__)

_STATUS_LINES: Final = {
    int(status): f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


class Exchange:
    """Passes a request to the application, and the answer to the connection.

    The head of an answer is sent together with the first part of its body, since two packets cost twice as
    much.

    Args:
        connection: Where the answer goes.
        scope: What the application sees of the head.
        keeps_alive: Whether another request may follow on the connection.
        expects_continue: Whether the client sends its body once it is told to continue.

    Attributes:
        scope: As given.
        keeps_alive: As given; false as soon as the answer announces the end of the connection.
        body: What has arrived of the body, and the application has not received.
        has_whole_body: Whether all of the body has arrived.
        has_begun: Whether the answer has begun.
        is_complete: Whether the answer is complete.
        is_disconnected: Whether the client gets nothing more.
        task: The task that answers.
    """

    task: asyncio.Task[None]

    def __init__(
        self, connection: "Protocol", scope: Scope, *, keeps_alive: bool, expects_continue: bool
    ) -> None:
        self.scope = scope
        self.keeps_alive = keeps_alive
        self.body = bytearray()
        self.has_whole_body = False
        self.has_begun = False
        self.is_complete = False
        self.is_disconnected = False
        self._connection = connection
        self._expects_continue = expects_continue
        self._news = asyncio.Event()
        self._head = b""
        self._is_chunked = False
        # None if the end of the connection is the end of the body.
        self._length: int | None = 0

    async def run(self, app: ASGIApp, tasks: set[asyncio.Task[None]]) -> None:
        """Have the application answer; the connection ends with an incomplete answer."""
        try:
            await app(self.scope, self.receive, self.send)
        except Exception as fault:
            logger.error("the application failed", exc_info=fault)
        finally:
            tasks.discard(self.task)
            if not self.is_complete and not self.is_disconnected:
                self.keeps_alive = False
                self._connection.end_exchange()

    def wake(self) -> None:
        """Let the application receive what has arrived, or that the client has left."""
        self._news.set()

    async def receive(self) -> Message:
        """Returns the next part of the body, or after it the end of the connection, once it comes."""
        if self._expects_continue:
            self._expects_continue = False
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not (self.is_disconnected or self.is_complete):
            self._connection.resume_reading()
            await self._news.wait()
            self._news.clear()
        if self.is_disconnected or self.is_complete:
            return {"type": "http.disconnect"}
        body, self.body = bytes(self.body), bytearray()
        return {"type": "http.request", "body": body, "more_body": not self.has_whole_body}

    async def send(self, message: Message) -> None:
        """Send a part of the answer, once the client has read those before it."""
        if self._connection.unread is not None:
            await self._connection.unread.wait()
        if self.is_disconnected:
            return
        if message["type"] == "http.response.start":
            self._begin(message["status"], message.get("headers", ()))
            return
        body, more_body = message.get("body", b""), message.get("more_body", False)
        if self._is_chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body += b"" if more_body else b"0\r\n\r\n"
        elif self.scope["method"] == "HEAD":
            body = b""
        elif self._length is not None:
            self._length -= len(body)
            if self._length < 0 or (self._length and not more_body):
                raise RuntimeError("the body of an answer is not as long as its head says")
        self._connection.write(self._head + body)
        self._head = b""
        if not more_body:
            self.is_complete = True
            self.wake()
            self._connection.end_exchange()

    def _begin(self, status: int, fields: list[tuple[bytes, bytes]]) -> None:
        self.has_begun = True
        self._expects_continue = False
        # A client that is answered before its whole request was read may not send another one.
        closes = not (self.keeps_alive and self.has_whole_body)
        if self.scope["method"] != "HEAD" and status not in (204, 304):
            # HTTP/1.0 knows no chunks.
            self._is_chunked = self.scope["http_version"] != "1.0"
            self._length = None
        fields = [*self._connection.default_fields, *fields]
        by_name = dict(fields)
        if b"content-length" in by_name:
            self._length, self._is_chunked = int(by_name[b"content-length"]), False
        if closes or b"connection" in by_name:
            closes = True
            fields = [field for field in fields if field[0] != b"connection"]
            fields.append((b"connection", b"close"))
        if self._is_chunked:
            fields.append((b"transfer-encoding", b"chunked"))
        lines = [b"%b: %b\r\n" % field for field in fields]
        self._head = b"".join([_STATUS_LINES[status], *lines, b"\r\n"])
        if self._head.count(b"\n") != len(lines) + 2:
            raise RuntimeError("a header field of an answer holds a line break")
        self.keeps_alive = not closes
