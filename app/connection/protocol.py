"""① ⑨ A connection: uvicorn's protocol over llhttp, with limits, time-outs for slow clients, and admission.

uvicorn's protocol sets no limit on a head, never closes the connection of a slow client, and answers what
it cannot parse with bodies of its own. It also parses all bytes as they arrive. Here a request is parsed
once the one before it is answered, so that a fault in it cannot spoil that answer.

A connection is in one of these states:

    idle        no request has begun; ends after uvicorn's keep-alive time-out
    receiving   a request has begun; ends the connection with 408 if the client is too slow
    answering   a whole request has arrived; what the client sends ahead is buffered, up to a limit
    lingering   nothing more is sent; what arrives is discarded until the client has had time to read
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from app.admission.gate import PERMIT, HeaderAdmission
from app.connection.head import Framing, WireError, begins_with_request_line, body_length
from app.connection.limits import ConnectionLimit, MinRateTimeout
from app.connection.transport import Flow, LingeringTransport
from app.errors import OverloadedError
from app.http.middleware import sane_request_id
from app.http.rejection import WIRE_STATUS, code_of, overloaded, rejection
from app.http.streaming import ABANDON
from app.telemetry.logs import new_request_id

logger = logging.getLogger(__name__)

# Longest time in which too little of a request arrives, or too little of an answer is read.
_SECONDS: Final = 6.0
# How long, and for how many bytes, a client that was answered early may go on sending. Closing at once would
# make the kernel reset the connection, which can destroy the answer.
_LINGER_SECONDS: Final = 2.0
_LINGER_BYTES: Final = 32 * 2**20
# Bytes that may wait to be parsed before reading is paused.
_MAX_UNREAD_BYTES: Final = 64 * 1024


class Protocol(HttpToolsProtocol):
    """One connection of uvicorn's server.

    Args:
        config: The configuration of uvicorn's server.
        server_state: The state of uvicorn's server.
        app_state: What the state of each request's scope begins with.
        limit: Counts all connections of the server.
        admission: Admits the requests of all connections of the server.
        count_rejection: Is told code and status of a rejection that ends no request the application knows.
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
        super().__init__(config, server_state, app_state, _loop)
        self._limit = limit
        self._admission = admission
        self._count_rejection = count_rejection
        self.url = b""
        self._buffer = bytearray()
        self._num_received = 0
        self._num_discarded = 0
        self._is_lingering = False
        self._receiving = MinRateTimeout(
            self.loop, _SECONDS, moved=lambda: self._num_received, expire=lambda: self._reject(408)
        )
        self._sending = MinRateTimeout(
            self.loop,
            _SECONDS,
            moved=lambda: -self._socket.get_write_buffer_size(),
            expire=lambda: self._socket.abort(),
        )
        self._is_kept_alive = False
        self._expect_request()

    # Called by the transport and by uvicorn

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; a connection on which nothing arrives ends like one that was kept alive."""
        # So that `pause_writing` means: the client has not read everything.
        transport.set_write_buffer_limits(high=0)
        self._socket = transport
        ours = cast(asyncio.Transport, LingeringTransport(transport, self._close, self._is_closing))
        super().connection_made(ours)
        self.flow = Flow(transport, self._has_enough)
        self._start_idle_timeout()
        if not self._limit.open(self):
            if self._limit.is_overrun:
                self._socket.abort()
            else:
                self._reject(503)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._limit.close(self)
        self._receiving.stop()
        self._sending.stop()
        self._unset_keepalive_if_required()
        if self.cycle is not None and (abandon := self.cycle.scope["state"].pop(ABANDON, None)) is not None:
            abandon()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Buffer the bytes that arrived, and parse those of the current request."""
        if self._is_lingering:
            self._discard(data)
            return
        self._num_received += len(data)
        self._buffer += data
        self._advance()
        if self._has_enough():
            self.flow.pause_reading()

    def pause_writing(self) -> None:
        """Give the client time to read."""
        super().pause_writing()
        self._sending.start()

    def resume_writing(self) -> None:
        """Go on: the client has read everything."""
        self._sending.stop()
        super().resume_writing()

    def shutdown(self) -> None:
        """Close as soon as no request is in progress; uvicorn calls this when the server ends."""
        self._is_kept_alive = False
        super().shutdown()

    def close_idle(self) -> None:
        """Close, for a new connection."""
        self._socket.close()

    # From bytes to requests

    def _expect_request(self) -> None:
        self._framing = Framing()
        self._overload: OverloadedError | None = None

    def _advance(self) -> None:
        """Parse what has arrived of the current request."""
        self._unset_keepalive_if_required()
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
        else:
            self._set_timeouts()

    def _parse(self, piece: bytes) -> None:
        self._fault = WireError(400)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            # llhttp leaves the body to the other protocol. None is spoken here, so the head is parsed without
            # it.
            head = self._head_without_upgrade()
            self.parser = httptools.HttpRequestParser(self)
            self._parse(head)
        except httptools.HttpParserInvalidMethodError:
            is_request = self._framing.is_first_piece(piece) and begins_with_request_line(piece)
            raise WireError(405) if is_request else self._fault from None
        except httptools.HttpParserError:
            # A parser that has not reached the version says 0.0.
            is_known = self.parser.get_http_version() in ("0.0", "1.0", "1.1")
            raise self._fault if is_known else WireError(505) from None

    def _head_without_upgrade(self) -> bytes:
        fields = [b"%b: %b\r\n" % field for field in self.headers if field[0] != b"upgrade"]
        version = self.parser.get_http_version().encode("ascii")
        return b"%b %b HTTP/%b\r\n%b\r\n" % (self.parser.get_method(), self.url, version, b"".join(fields))

    # Called by the parser

    def on_headers_complete(self) -> None:
        """Begin to answer, unless the head is rejected."""
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            return
        try:
            self._check_head()
        except WireError as fault:
            self._fault = fault
            raise
        if not self._admit():
            return
        super().on_headers_complete()
        self._limit.set_busy(self)
        if not self.url.startswith(b"/"):
            # This is no proxy: the address of another server is a path that does not exist.
            self.scope["path"] = self.url.decode("ascii")
        # Fields after the last chunk are not part of the head.
        self.headers = []
        # An answer that begins before the request has been read announces the end of the connection.
        self._is_kept_alive, self.cycle.keep_alive = self.cycle.keep_alive, False

    def _check_head(self) -> None:
        version = self.parser.get_http_version()
        self.headers[:] = [(name, value.rstrip(b" \t")) for name, value in self.headers]
        self._framing.end_head(body_length(self.parser.get_method(), self.url, version, self.headers))
        # HTTP/1.0 has no 100 Continue.
        self.expect_100_continue &= version != "1.0"

    def _admit(self) -> bool:
        """Take a permit for the request, or reject it, at the latest when its body has arrived.

        Returns:
            Whether the application gets the request.
        """
        length = None if self._framing.is_chunked else self._framing.content_left
        try:
            permit = self._admission.admit(
                self.parser.get_method(), self.url, self.headers, self.client, length
            )
        except OverloadedError as overload:
            self._overload = overload
            if length is None or length > _MAX_UNREAD_BYTES or self.expect_100_continue:
                # The rest of the body, which the client may not even have sent yet, is not waited for.
                self._reject_overload(overload, ends=True)
            return False
        if permit is not None:
            self.scope["state"][PERMIT] = permit
        return True

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body to the application."""
        self._framing.count_content(len(body))
        if self._overload is None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Prepare for the next request."""
        if self._framing.is_in_head:
            return
        if self._overload is not None:
            self._reject_overload(self._overload, ends=not self.parser.should_keep_alive())
            self._expect_request()
            return
        if not self.cycle.response_started:
            self.cycle.keep_alive = self._is_kept_alive
        self._expect_request()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Parse what the client has sent ahead."""
        cast(LingeringTransport, self.transport).flush()
        self._limit.set_idle(self)
        super().on_response_complete()
        if self._buffer:
            self._advance()
            self.flow.resume_reading()

    # State and time-outs

    def _is_answering(self) -> bool:
        """Whether a whole request has arrived and is not answered yet."""
        cycle = self.cycle
        return cycle is not None and not cycle.more_body and not cycle.response_complete

    def _is_receiving(self) -> bool:
        """Whether a request has begun and not ended; some clients send an empty line after theirs."""
        is_next = not self._is_answering() and bool(self._buffer.strip(b"\r\n"))
        return self._framing.has_begun or is_next

    def _has_enough(self) -> bool:
        """Whether so many bytes wait to be parsed that no more should arrive."""
        return len(self._buffer) > _MAX_UNREAD_BYTES

    def _is_closing(self) -> bool:
        return self._is_lingering or self._socket.is_closing()

    def _set_timeouts(self) -> None:
        if self._is_receiving():
            self._receiving.start()
            return
        self._receiving.stop()
        if not self._is_answering():
            self._start_idle_timeout()

    def _start_idle_timeout(self) -> None:
        """Limit the time without a request; after an answer uvicorn does so itself."""
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    # Rejections and the end

    def _reject_overload(self, overload: OverloadedError, *, ends: bool) -> None:
        if self._is_closing():
            return
        given = next((value for name, value in self.headers if name == b"x-request-id"), b"")
        self._socket.write(overloaded(overload, sane_request_id(given.decode("latin-1")), ends=ends))
        if ends:
            self._linger()

    def _reject(self, status: int) -> None:
        """Answer if that is still possible, and end the connection."""
        cycle, request_id = self.cycle, new_request_id()
        if cycle is None or cycle.response_complete:
            self._count_rejection(code_of(status), status)
        else:
            state = cycle.scope.setdefault("state", {})
            request_id = state.get("request_id", request_id)
            if not cycle.response_started:
                state[WIRE_STATUS] = status
            cycle.disconnected = True
            cycle.message_event.set()
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self._socket.write(rejection(status, request_id))
        details = {"status": status, "code": code_of(status), "request_id": request_id}
        logger.info("request refused", extra=details)
        self._linger()

    def _close(self) -> None:
        """Close at once if nothing of another request has arrived."""
        if self._is_receiving() or self._buffer:
            self._linger()
        else:
            self._socket.close()

    def _linger(self) -> None:
        """Send nothing more, and close once the client has had time to read what was sent."""
        if self._is_closing():
            return
        self._is_lingering = True
        self._receiving.stop()
        self._buffer.clear()
        self.flow.resume_reading()
        self._socket.write_eof()
        self.loop.call_later(_LINGER_SECONDS, self._socket.close)

    def _discard(self, data: bytes) -> None:
        self._num_discarded += len(data)
        if self._num_discarded > _LINGER_BYTES:
            self._socket.abort()
