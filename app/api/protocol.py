"""① ⑨ A connection: requests one after the other, and an end to clients that only dawdle.

In place of uvicorn's protocols: the one over httptools puts no limit on a head, neither gives up on
a slow client, and the one over h11 takes three times as long for a short request.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote

from starlette.types import Scope
from uvicorn.config import Config
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from app.api.exchange import Exchange
from app.api.framing import Body, body_of
from app.api.head import Head, WireError, take_head
from app.api.refusal import refusal

logger = logging.getLogger(__name__)

# The least pace of a request that has begun, and of a client that reads its answer: who sends or takes
# a byte now and then would otherwise hold a connection for ever.
_SECONDS: Final = 6.0
_BYTES: Final = 16 * 1024
# How long, and for how much, a client that was answered too early may go on sending. Closing at once
# would make the kernel reset the connection, which can destroy the answer on its way.
_LINGER_SECONDS: Final = 2.0
_LINGER_BYTES: Final = 32 * 2**20
# How much may wait to be looked at before reading is paused.
_UNREAD_BYTES: Final = 64 * 1024

_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}


class Protocol(asyncio.Protocol):
    """One connection of uvicorn's server; also the Line of its exchanges.

    Only one request is worked on at a time; what the client sends ahead stays in the buffer.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        if not config.loaded:
            config.load()
        self._config = config
        self._server = server_state
        self._app_state = app_state
        self._loop = _loop or asyncio.get_running_loop()
        self._buffer = bytearray()
        self._exchange: Exchange | None = None
        self._body: Body = body_of(0)
        self._num_received = 0
        self._num_discarded = 0
        self._is_hanging_up = False
        self._is_paused = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._receiving = _Timer(self._loop)
        self._stalling = _Timer(self._loop)

    # What the transport tells

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; a connection that nothing ever comes from ends like one that was kept alive."""
        self._transport = transport
        # So that `pause_writing` means: the client leaves something unread.
        transport.set_write_buffer_limits(high=0)
        self._addresses = {"client": get_remote_addr(transport), "server": get_local_addr(transport)}
        self._server.connections.add(self)  # type: ignore[arg-type]
        self._idle_since = self._loop.time()
        self._check_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._server.connections.discard(self)
        for timer in (self._receiving, self._stalling, self._idle_timer):
            timer.cancel()
        self._writable.set()
        if self._exchange is not None:
            self._exchange.abandon()

    def data_received(self, data: bytes) -> None:
        """Take what came, and see that the rest comes soon."""
        if self._is_hanging_up:
            self._discard(data)
            return
        self._num_received += len(data)
        self._buffer += data
        self._advance()
        if self._has_enough():
            self._is_paused = True
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Give the client a while to read."""
        self._writable.clear()
        self._stalling.start(self._transport.abort)

    def resume_writing(self) -> None:
        """It has read everything."""
        self._stalling.cancel()
        self._writable.set()

    def shutdown(self) -> None:
        """Close as soon as nothing is being answered; uvicorn calls this at its end."""
        if self._exchange is None:
            self._transport.close()
        else:
            self._exchange.is_last = True

    # What exchanges ask for

    def write(self, data: bytes) -> None:
        """See Line."""
        self._transport.write(data)

    async def drained(self) -> None:
        """See Line."""
        if not self._writable.is_set():
            await self._writable.wait()

    def resume_reading(self) -> None:
        """See Line."""
        if self._is_paused and not self._has_enough():
            self._is_paused = False
            self._transport.resume_reading()

    def finish(self, *, closes: bool) -> None:
        """See Line."""
        self._server.total_requests += 1
        self._exchange = None
        self._idle_since = self._loop.time()
        self.resume_reading()
        if not closes:
            self._advance()
        elif self._body.is_complete and not self._buffer:
            self._transport.close()
        else:
            self._hang_up()

    def abort(self) -> None:
        """See Line."""
        self._transport.abort()

    # From bytes to requests

    def _advance(self) -> None:
        """Do what can be done with what has come."""
        try:
            if self._exchange is None:
                self._begin()
            elif not self._body.is_complete:
                self._feed(self._exchange)
        except WireError as error:
            self._refuse(error.status)
        else:
            self._watch_pace()

    def _has_enough(self) -> bool:
        """Whether so much waits to be looked at that nothing more should come."""
        num_unread = self._exchange.num_unread if self._exchange is not None else 0
        return max(num_unread, len(self._buffer)) > _UNREAD_BYTES

    def _begin(self) -> None:
        """Begin to answer a request as soon as its head is there."""
        head = take_head(self._buffer)
        if head is None:
            return
        self._body = body_of(head.length)
        exchange = Exchange(head, self._scope(head), self, self._server.default_headers)
        self._exchange = exchange
        self._feed(exchange)
        task = self._loop.create_task(exchange.run(self._config.loaded_app))
        self._server.tasks.add(task)
        task.add_done_callback(self._server.tasks.discard)

    def _feed(self, exchange: Exchange) -> None:
        part = self._body.take(self._buffer)
        exchange.feed(part, is_last=self._body.is_complete)

    def _scope(self, head: Head) -> Scope:
        raw_path, _, query = head.target.partition(b"?")
        path = raw_path.decode("ascii")
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": head.version,
            "scheme": "http",
            "method": head.method,
            "root_path": "",
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": head.fields,
            "state": self._app_state.copy(),
            **self._addresses,
        }

    # An end to those who dawdle

    def _check_idle(self) -> None:
        """Close what was not used for a while; looks now and then, which is cheaper than for each request."""
        allowed: float = self._config.timeout_keep_alive
        if self._exchange is None and not self._buffer:
            allowed += self._idle_since - self._loop.time()
        if allowed > 0:
            self._idle_timer = self._loop.call_later(allowed, self._check_idle)
        else:
            self._transport.close()

    def _watch_pace(self) -> None:
        if not self._is_receiving():
            self._receiving.cancel()
        elif not self._receiving.is_running:
            num_before = self._num_received
            self._receiving.start(lambda: self._check_pace(self._num_received - num_before))

    def _is_receiving(self) -> bool:
        """Whether a request has begun and not ended."""
        return bool(self._buffer) if self._exchange is None else not self._body.is_complete

    def _check_pace(self, num_received: int) -> None:
        if num_received < _BYTES:
            self._refuse(408)
        else:
            self._watch_pace()

    def _refuse(self, status: int) -> None:
        """Answer if that is still possible, and hang up."""
        logger.info("request refused", extra={"status": status})
        exchange, self._exchange = self._exchange, None
        if exchange is None or not exchange.has_begun_to_answer:
            self._transport.write(refusal(status))
        if exchange is not None:
            exchange.abandon()
        self._hang_up()

    def _hang_up(self) -> None:
        """Send nothing more, and close once the client has had time to hear what was sent."""
        self._is_hanging_up = True
        self._receiving.cancel()
        self._buffer.clear()
        self.resume_reading()
        if not self._transport.is_closing():
            self._transport.write_eof()
        self._loop.call_later(_LINGER_SECONDS, self._transport.close)

    def _discard(self, data: bytes) -> None:
        self._num_discarded += len(data)
        if self._num_discarded > _LINGER_BYTES:
            self._transport.abort()


class _Timer:
    """Does something after a while, unless it is cancelled before; starting it twice changes nothing."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        return self._handle is not None

    def start(self, action: Callable[[], None]) -> None:
        if self._handle is None:
            self._handle = self._loop.call_later(_SECONDS, self._run, action)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _run(self, action: Callable[[], None]) -> None:
        self._handle = None
        action()
