"""⑨ An answer that comes before the whole request was read still reaches its client.

Closing a socket with unread bytes in it makes the kernel send a reset, which can destroy the
answer on its way. So the answer goes out first, then what still comes is read and thrown away
for a moment, and only then the connection closes.
"""

import asyncio

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SECONDS = 2.0
_BYTES = 32 * 2**20


class LingeringCloseMiddleware:
    """Lingers over the rest of a request's body before the connection closes.

    Args:
        app: What answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or not _announces_body(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(receive, send)
        await self._app(scope, exchange.receive, exchange.send)


def _announces_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


class _Exchange:
    """One request whose body may be left unread."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._is_read = False

    async def receive(self) -> Message:
        """Pass on a part of the body, and note its end."""
        message = await self._receive()
        self._is_read = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Pass on a part of the answer; before its end, read what the request still holds."""
        if self._is_read:
            await self._send(message)
        elif message["type"] == "http.response.start":
            MutableHeaders(scope=message)["Connection"] = "close"
            await self._send(message)
        elif message.get("more_body", False):
            await self._send(message)
        else:
            await self._send({**message, "more_body": True})
            await self._discard_rest()
            await self._send({"type": "http.response.body"})

    async def _discard_rest(self) -> None:
        discarded = 0
        try:
            async with asyncio.timeout(_SECONDS):
                while not self._is_read and discarded < _BYTES:
                    discarded += len((await self.receive()).get("body", b""))
        except TimeoutError:
            return
