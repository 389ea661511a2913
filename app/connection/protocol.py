"""① ⑨ A connection: a protocol over llhttp for uvicorn's server, with limits, time-outs and admission.

uvicorn's own protocol sets no limit on a head, never closes the connection of a slow client, answers what it
cannot parse with bodies of its own, and parses all bytes as they arrive. Here a request is parsed once the
one before it is answered, so that a fault in it cannot spoil that answer.

A connection is in one of these states:

    idle        no request has begun; the longest idle ones are closed by their limit
    receiving   a request has begun; ends the connection with 408 if the client is too slow
    answering   a whole request has arrived; what the client sends ahead is buffered, up to a limit
    lingering   nothing more is sent; what arrives is discarded until the client has had time to read
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote

import httptools
from uvicorn.config import Config
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from app.admission.gate import PERMIT, HeaderAdmission
from app.connection.exchange import Exchange
from app.connection.head import Framing, WireError, begins_with_request_line, body_length
from app.connection.limits import ConnectionLimit, MinRateTimeout
from app.errors import OverloadedError
from app.http.body import HEADERS_BY_NAME, headers_by_name
from app.http.errors import WIRE_STATUS, overload_rejection, wire_code, wire_rejection
from app.http.middleware import sane_request_id
from app.http.streaming import ABANDON
from app.telemetry.logs import new_request_id

logger = logging.getLogger(__name__)

# Seconds in which at least 16 KiB of a request must arrive, or of an answer must be read.
_MIN_RATE_SECONDS: Final = 6.0
# How long, and for how many bytes, a client that was answered early may go on sending. Closing at once would
# make the kernel reset the connection, which can destroy the answer.
_LINGER_SECONDS: Final = 2.0
_LINGER_BYTES: Final = 32 * 2**20
# Bytes that may wait to be parsed, or to be received by the application, before reading is paused.
_MAX_UNREAD_BYTES: Final = 64 * 1024
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}


class Protocol(asyncio.Protocol):
    """One connection of uvicorn's server.

    Args:
        config: The configuration of uvicorn's server.
        server_state: The state of uvicorn's server.
        app_state: What the state of each request's scope begins with.
        limit: Counts all connections of the server.
        admission: Admits the requests of all connections of the server.
        count_rejection: Is told code and status of a rejection that ends no request the application knows.

    Attributes:
        url: The target of the current request, as far as it is parsed.
        unread: Is set once the client has read what was sent, or has left; None if it has read everything.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limit: ConnectionLimit,
        admission: HeaderAdmission,
        count_rejection: Callable[[str, int], None],
    ) -> None:
        if not config.loaded:
            config.load()
        self._app = config.loaded_app
        self._server_state = server_state
        self._app_state = app_state
        self._loop = _loop or asyncio.get_running_loop()
        self._limit = limit
        self._admission = admission
        self._count_rejection = count_rejection
        self._parser = httptools.HttpRequestParser(self)
        self._exchange: Exchange | None = None
        self.url = b""
        self._fields: list[tuple[bytes, bytes]] = []
        self._fault: WireError | None = None
        self._buffer = bytearray()
        self._num_received = 0
        self._num_discarded = 0
        self._is_lingering = False
        self._is_reading = True
        self.unread: asyncio.Event | None = None
        self._receiving = MinRateTimeout(
            self._loop, _MIN_RATE_SECONDS, moved=lambda: self._num_received, expire=lambda: self._reject(408)
        )
        self._sending = MinRateTimeout(
            self._loop,
            _MIN_RATE_SECONDS,
            moved=lambda: -self._transport.get_write_buffer_size(),
            expire=lambda: self._transport.abort(),
        )
        self._expect_request()

    # Called by the transport and by the server

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, and refuse it if there are too many."""
        # So that `pause_writing` means: the client has not read everything.
        transport.set_write_buffer_limits(high=0)
        self._transport = transport
        self._server, self._client = get_local_addr(transport), get_remote_addr(transport)
        self._server_state.connections.add(self)  # type: ignore[arg-type]
        if not self._limit.open(self):
            if self._limit.is_overrun:
                transport.abort()
            else:
                self._reject(503)

    def connection_lost(self, exc: Exception | None) -> None:
        """Have the work for an unanswered request cancelled, and free the connection."""
        self._server_state.connections.discard(self)
        self._limit.close(self)
        self._receiving.stop()
        self.resume_writing()
        if (exchange := self._exchange_in_progress()) is not None:
            self._disconnect(exchange)
            if (abandon := exchange.scope["state"].pop(ABANDON, None)) is not None:
                abandon()
        # These refer to the connection. Without them it is freed at once, and not by the garbage collector,
        # which stops all threads while it looks for it.
        self._exchange = None
        del self._parser, self._receiving, self._sending

    def data_received(self, data: bytes) -> None:
        """Buffer the bytes that arrived, and parse those of the current request."""
        if self._is_lingering:
            self._discard(data)
            return
        self._num_received += len(data)
        self._buffer += data
        self._advance()
        if self._is_reading and self._has_enough():
            self._is_reading = False
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Hold the answer back until the client has read what was sent, which it must do in time."""
        self.unread = asyncio.Event()
        self._sending.start()

    def resume_writing(self) -> None:
        """Let the answer go on: the client has read everything."""
        self._sending.stop()
        if self.unread is not None:
            self.unread.set()
            self.unread = None

    def shutdown(self) -> None:
        """Close as soon as no request is in progress; uvicorn calls this when the server ends."""
        if (exchange := self._exchange_in_progress()) is None:
            self._close()
        else:
            exchange.keeps_alive = False

    def close_idle(self) -> None:
        """Close, for a new connection or after a long time without a request."""
        self._transport.close()

    # From bytes to requests

    def _expect_request(self) -> None:
        """Forget the framing of the last request."""
        self._framing = Framing()
        self._overload: OverloadedError | None = None

    def _advance(self) -> None:
        """Parse what has arrived of the current request."""
        try:
            while self._buffer and not self._is_answering():
                size = self._framing.size_of_piece(self._buffer, self.url)
                if not size:
                    break
                piece = bytes(self._buffer[:size])
                del self._buffer[:size]
                self._parse(piece)
        except WireError as error:
            self._reject(error.status)
            return
        if self._is_receiving():
            self._receiving.start()
        else:
            self._receiving.stop()

    def _parse(self, piece: bytes) -> None:
        self._fault = None
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            # llhttp leaves the body to the other protocol. None is spoken here, so the head is parsed without
            # it.
            head = self._head_without_upgrade()
            self._parser = httptools.HttpRequestParser(self)
            self._parse(head)
        except httptools.HttpParserInvalidMethodError:
            is_request = self._framing.is_first_piece(piece) and begins_with_request_line(piece)
            raise WireError(405 if is_request else 400) from None
        except httptools.HttpParserError:
            # A parser that has not reached the version says 0.0.
            is_known = self._parser.get_http_version() in ("0.0", "1.0", "1.1")
            raise self._fault or WireError(400 if is_known else 505) from None

    def _head_without_upgrade(self) -> bytes:
        fields = [b"%b: %b\r\n" % field for field in self._fields if field[0] != b"upgrade"]
        version = self._parser.get_http_version().encode("ascii")
        return b"%b %b HTTP/%b\r\n%b\r\n" % (self._parser.get_method(), self.url, version, b"".join(fields))

    # Called by the parser

    def on_message_begin(self) -> None:
        """Begin to collect a head."""
        self.url, self._fields = b"", []

    def on_url(self, url: bytes) -> None:
        """Collect a part of the target."""
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a field; those after the last chunk are not part of the head."""
        if self._framing.is_in_head:
            self._fields.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """Begin to answer, unless the head is rejected."""
        parser = self._parser
        method, version = parser.get_method(), parser.get_http_version()
        if parser.should_upgrade() and method != b"CONNECT":
            return
        headers = headers_by_name(self._fields)
        try:
            length = body_length(method, self.url, version, self._fields, headers)
        except WireError as fault:
            self._fault = fault
            raise
        self._framing.end_head(length)
        # HTTP/1.0 has no 100 Continue.
        expects_continue = version != "1.0" and headers.get(b"expect", b"").lower() == b"100-continue"
        try:
            permit = self._admission.admit(method, self.url, headers, self._client, length)
        except OverloadedError as overload:
            self._overload = overload
            if length is None or length > _MAX_UNREAD_BYTES or expects_continue:
                # The rest of the body, which the client may not even have sent yet, is not waited for.
                self._reject_overload(overload, ends=True)
            return
        scope = self._scope_of_head(method, version)
        scope[HEADERS_BY_NAME] = headers
        if permit is not None:
            scope["state"][PERMIT] = permit
        keeps_alive = version != "1.0" and parser.should_keep_alive()
        exchange = Exchange(self, scope, keeps_alive=keeps_alive, expects_continue=expects_continue)
        exchange.task = self._loop.create_task(exchange.run(self._app, self._server_state.tasks))
        self._server_state.tasks.add(exchange.task)
        self._exchange = exchange
        self._limit.set_busy(self)

    def _scope_of_head(self, method: bytes, version: str) -> dict[str, Any]:
        raw_path, _, query = self.url.partition(b"?")
        path = raw_path.decode("ascii")
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "server": self._server,
            "client": self._client,
            "scheme": "http",
            "root_path": "",
            "method": method.decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": self._fields,
            "state": self._app_state.copy(),
        }

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body to the application."""
        self._framing.count_content(len(body))
        if self._overload is None and self._exchange is not None and not self._exchange.is_complete:
            self._exchange.body += body
            self._exchange.wake()

    def on_message_complete(self) -> None:
        """Prepare for the next request."""
        if self._framing.is_in_head:
            return
        if self._overload is not None:
            self._reject_overload(self._overload, ends=not self._parser.should_keep_alive())
        elif self._exchange is not None:
            self._exchange.has_whole_body = True
            self._exchange.wake()
        self._expect_request()

    # Called by the exchange

    @property
    def default_fields(self) -> list[tuple[bytes, bytes]]:
        """The header fields of every answer."""
        return self._server_state.default_headers

    def write(self, data: bytes) -> None:
        """Send bytes, unless the connection is about to close."""
        if not self._is_closing():
            self._transport.write(data)

    def resume_reading(self) -> None:
        """Let the client send more, unless enough waits."""
        if not self._is_reading and not self._has_enough():
            self._is_reading = True
            self._transport.resume_reading()

    def end_exchange(self) -> None:
        """Parse what the client has sent ahead, or close."""
        self._limit.set_idle(self)
        if self._exchange is not None and not self._exchange.keeps_alive:
            self._close()
        elif self._buffer:
            self._advance()
        self.resume_reading()

    # State

    def _exchange_in_progress(self) -> Exchange | None:
        """Returns the exchange whose answer is not complete."""
        exchange = self._exchange
        return None if exchange is None or exchange.is_complete else exchange

    def _is_answering(self) -> bool:
        """Returns whether a whole request has arrived and is not answered yet."""
        exchange = self._exchange
        return exchange is not None and exchange.has_whole_body and not exchange.is_complete

    def _is_receiving(self) -> bool:
        """Returns whether a request has begun and not ended; some clients send an empty line after theirs."""
        is_next = bool(self._buffer) and not self._is_answering() and bool(self._buffer.strip(b"\r\n"))
        return is_next or self._framing.has_begun

    def _has_enough(self) -> bool:
        """Returns whether so many bytes wait that no more should arrive."""
        if len(self._buffer) > _MAX_UNREAD_BYTES:
            return True
        exchange = self._exchange
        return (
            exchange is not None
            and len(exchange.body) > _MAX_UNREAD_BYTES
            and not (exchange.is_complete or exchange.is_disconnected)
        )

    def _is_closing(self) -> bool:
        return self._is_lingering or self._transport.is_closing()

    # Rejections and the end

    def _reject_overload(self, overload: OverloadedError, *, ends: bool) -> None:
        if self._is_closing():
            return
        self._limit.set_idle(self)
        given = next((value for name, value in self._fields if name == b"x-request-id"), b"")
        self._transport.write(
            overload_rejection(overload, sane_request_id(given.decode("latin-1")), ends=ends)
        )
        if ends:
            self._linger()

    def _reject(self, status: int) -> None:
        """Answer if that is still possible, and end the connection."""
        exchange, request_id = self._exchange_in_progress(), new_request_id()
        if exchange is None:
            self._count_rejection(wire_code(status), status)
        else:
            state = exchange.scope["state"]
            request_id = state.get("request_id", request_id)
            if not exchange.has_begun:
                state[WIRE_STATUS] = status
            self._disconnect(exchange)
        if exchange is None or not exchange.has_begun:
            self._transport.write(wire_rejection(status, request_id))
        details = {"status": status, "code": wire_code(status), "request_id": request_id}
        logger.info("request refused", extra=details)
        self._linger()

    def _disconnect(self, exchange: Exchange) -> None:
        exchange.is_disconnected = True
        exchange.wake()

    def _close(self) -> None:
        """Close at once if nothing of another request has arrived."""
        if self._is_receiving() or self._buffer:
            self._linger()
        else:
            self._transport.close()

    def _linger(self) -> None:
        """Send nothing more, and close once the client has had time to read what was sent."""
        if self._is_closing():
            return
        self._is_lingering = True
        self._receiving.stop()
        self._buffer.clear()
        self.resume_reading()
        self._transport.write_eof()
        self._loop.call_later(_LINGER_SECONDS, self._transport.close)

    def _discard(self, data: bytes) -> None:
        self._num_discarded += len(data)
        if self._num_discarded > _LINGER_BYTES:
            self._transport.abort()
