"""① ⑨ One request and its answer, as ASGI sees them (https://asgi.readthedocs.io/en/latest/specs/www.html)."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, Protocol

from starlette.types import ASGIApp, Message, Scope

from app.api.head import Field, Head
from app.api.reply import Reply

logger = logging.getLogger(__name__)

_INVITATION: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class Line(Protocol):
    """The connection, as its exchanges see it."""

    def write(self, data: bytes) -> None:
        """Send bytes."""

    async def drained(self) -> None:
        """Wait until the client has taken what was sent."""

    def resume_reading(self) -> None:
        """Read on, if reading was paused."""

    def finish(self, *, closes: bool) -> None:
        """The answer is out: go on with the next request, or close."""

    def abort(self) -> None:
        """The answer broke off: nothing can follow."""


class Exchange:
    """One request and its answer.

    Args:
        head: Of the request.
        scope: The same for ASGI.
        line: Where the answer goes.
        defaults: Header fields that every answer carries.

    Attributes:
        is_last: Whether the connection ends behind it.
        num_unread: Bytes of the body that came, and that nobody has asked for yet.
    """

    def __init__(self, head: Head, scope: Scope, line: Line, defaults: Iterable[Field]) -> None:
        self.is_last = head.is_last
        self.num_unread = 0
        self._scope = scope
        self._line = line
        self._reply = Reply(head, defaults)
        self._awaits_invitation = head.awaits_invitation
        self._parts: list[bytes] = []
        self._has_all = False
        self._was_read = False
        self._is_over = False
        self._news: asyncio.Future[None] | None = None

    @property
    def has_begun_to_answer(self) -> bool:
        """Whether a part of the answer has left."""
        return self._reply.has_begun

    async def run(self, app: ASGIApp) -> None:
        """Let an application answer."""
        try:
            await app(self._scope, self.receive, self.send)
        except Exception as fault:
            logger.error("an answer broke off", exc_info=fault)
        finally:
            if not self._is_over:
                self.abandon()
                self._line.abort()

    def feed(self, part: bytes, *, is_last: bool) -> None:
        """Take a part of the request's body."""
        if part:
            self._parts.append(part)
            self.num_unread += len(part)
        self._has_all = is_last
        self._announce()

    def abandon(self) -> None:
        """Receive and send nothing more."""
        self._is_over = True
        self._announce()

    async def receive(self) -> Message:
        """The next part of the body; behind the last, wait until the client leaves or has its answer."""
        if self._awaits_invitation and not self._parts and not self._reply.has_begun:
            self._line.write(_INVITATION)
        self._awaits_invitation = False
        while not (self._is_over or self._parts or (self._has_all and not self._was_read)):
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        return {"type": "http.disconnect"} if self._is_over else self._take()

    def _take(self) -> Message:
        body = b"".join(self._parts)
        self._parts.clear()
        self.num_unread = 0
        self._was_read = self._has_all
        self._line.resume_reading()
        return {"type": "http.request", "body": body, "more_body": not self._has_all}

    async def send(self, message: Message) -> None:
        """Send a part of the answer; nobody hears it once the client is gone.

        Raises:
            RuntimeError: If it contradicts what was sent before.
        """
        await self._line.drained()
        if self._is_over:
            return
        if message["type"] == "http.response.start":
            self._reply.start(message["status"], message.get("headers", ()))
            return
        is_last = not message.get("more_body", False)
        # A client that still sends learns with the head that nobody will listen to the end.
        closes = self.is_last or not self._has_all
        self._line.write(self._reply.part(message.get("body", b""), is_last=is_last, closes=closes))
        if is_last:
            self.abandon()
            self._line.finish(closes=self._reply.closes)

    def _announce(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
