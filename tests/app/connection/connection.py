"""A connection without a socket: a client's bytes go in, requests and answers come out."""

import asyncio
import re
from functools import cache
from typing import NamedTuple

from starlette.types import Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from app.admission.gate import PERMIT, HeaderAdmission
from app.connection.limits import ConnectionLimit
from app.connection.protocol import Protocol
from app.lifecycle.context import Context
from app.settings import Settings


class Seen(NamedTuple):
    """A request as an application saw it, and its target as it was written."""

    method: str
    target: bytes
    version: str
    fields: list[tuple[bytes, bytes]]
    body: bytes


@cache
def _admission() -> HeaderAdmission:
    """Shared by all connections that need no other, because making it takes longer than most tests."""
    return Context(Settings(_env_file=None)).header_admission()


class Wire(asyncio.Transport):
    """One connection to an application that reads requests, notes them and says `done`.

    Args:
        limit: Shared with other connections.
        admission: Shared with other connections.
    """

    def __init__(
        self, limit: ConnectionLimit | None = None, admission: HeaderAdmission | None = None
    ) -> None:
        super().__init__()
        self.written = b""
        self.seen: list[Seen] = []
        self.has_ended = False
        self.num_unread = 0
        self._is_closing = False
        config = Config(self.answer, interface="asgi3", ws="none", log_config=None, proxy_headers=False)
        self.rejections: list[str] = []
        self.protocol = Protocol(
            config,
            ServerState(),
            {},
            limit=limit or ConnectionLimit(10),
            admission=admission or _admission(),
            count_rejection=lambda code, _: self.rejections.append(code),
        )
        self.protocol.connection_made(self)

    async def send(self, data: bytes) -> None:
        """What the client sends arrives, and is worked on."""
        self.protocol.data_received(data)
        # A request takes a few turns of the loop.
        for _ in range(10):
            await asyncio.sleep(0)

    @property
    def statuses(self) -> list[int]:
        """Of all answers."""
        return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", self.written)]

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read one request, say `done` and release its permit."""
        try:
            await self._answer(scope, receive, send)
        finally:
            if permit := scope["state"].get(PERMIT):
                permit.release()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        message: Message = {"more_body": True}
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
        if message["type"] == "http.disconnect":
            return
        self.seen.append(
            Seen(scope["method"], self.protocol.url, scope["http_version"], scope["headers"], body)
        )
        fields = [(b"content-length", b"4")]
        await send({"type": "http.response.start", "status": 200, "headers": fields})
        await send({"type": "http.response.body", "body": b"done"})

    # What a protocol asks of a transport

    def write(self, data: bytes) -> None:  # type: ignore[override]
        self.written += data

    def write_eof(self) -> None:
        self.has_ended = True

    def close(self) -> None:
        self._is_closing = self.has_ended = True

    abort = close

    def is_closing(self) -> bool:
        return self._is_closing

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.num_unread

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass
