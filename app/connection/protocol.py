"""① ⑨ A connection: uvicorn's over llhttp, with limits, and an end to clients that only dawdle.

uvicorn's puts no limit on a head, never gives up on a slow client, and answers what it cannot read in
words of its own. It also parses as far ahead as bytes come; here a request is parsed when its turn comes,
so that a fault in it cannot spoil the answer to the one before.
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
from app.connection.head import (
    MAX_HEAD_BYTES,
    MAX_TARGET_BYTES,
    WireError,
    begins_with_request_line,
    body_length,
)
from app.connection.limits import Door, Pace
from app.connection.transport import Flow, LingeringTransport
from app.errors import OverloadedError
from app.http.middleware import sane_request_id
from app.http.rejection import WIRE_STATUS, code_of, overloaded, refusal
from app.telemetry.logs import new_request_id

logger = logging.getLogger(__name__)

# How long a request that has begun may stand still, and a client that has an answer to read.
_SECONDS: Final = 6.0
# How long, and for how much, a client that was answered too early may go on sending. Closing at once
# would make the kernel reset the connection, which can destroy the answer on its way.
_LINGER_SECONDS: Final = 2.0
_LINGER_BYTES: Final = 32 * 2**20
# How much may wait for its turn before reading is paused.
_UNREAD_BYTES: Final = 64 * 1024
# Of sizes, ends and trailers around the content. A crumb costs far more work than its bytes: 100,000 chunks
# of one byte keep the process busy for seconds.
_MAX_CHUNKING_BYTES: Final = 16 * 1024
# Behind a head, and behind a body in chunks.
_END: Final = b"\r\n\r\n"


class Protocol(HttpToolsProtocol):
    """One connection of uvicorn's server; only one request is worked on at a time.

    Args:
        config: Of uvicorn's server.
        server_state: Of uvicorn's server.
        app_state: What each request's scope begins with.
        door: Of uvicorn's server, the same for all its connections.
        admission: Likewise.
        count_refusal: Is told code and status of a refusal that ends no request the application knows.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        door: Door,
        admission: HeaderAdmission,
        count_refusal: Callable[[str, int], None],
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._door = door
        self._admission = admission
        self._count_refusal = count_refusal
        self.url = b""
        self._buffer = bytearray()
        self._num_received = 0
        self._num_discarded = 0
        self._is_hanging_up = False
        self._receiving = Pace(
            self.loop, _SECONDS, moved=lambda: self._num_received, give_up=lambda: self._refuse(408)
        )
        self._reading = Pace(
            self.loop,
            _SECONDS,
            moved=lambda: -self._line.get_write_buffer_size(),
            give_up=lambda: self._line.abort(),
        )
        self._is_kept_alive = False
        self._expect_head()

    # What the transport tells

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; a connection that nothing ever comes from ends like one that was kept alive."""
        # So that `pause_writing` means: the client leaves something unread.
        transport.set_write_buffer_limits(high=0)
        self._line = transport
        ours = cast(asyncio.Transport, LingeringTransport(transport, self._close, self._is_closing))
        super().connection_made(ours)
        self.flow = Flow(transport, self._has_enough)
        self._await_request()
        if not self._door.enter(self):
            self._turn_away()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._door.leave(self)
        self._receiving.stop()
        self._reading.stop()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, and see that the rest comes soon."""
        if self._is_hanging_up:
            self._discard(data)
            return
        self._num_received += len(data)
        self._buffer += data
        self._advance()
        if self._has_enough():
            self.flow.pause_reading()

    def pause_writing(self) -> None:
        """Give the client a while to read."""
        super().pause_writing()
        self._reading.watch()

    def resume_writing(self) -> None:
        """It has read everything."""
        self._reading.stop()
        super().resume_writing()

    def shutdown(self) -> None:
        """Close as soon as nothing is being answered; uvicorn calls this at its end."""
        self._is_kept_alive = False
        super().shutdown()

    def make_room(self) -> None:
        """Close, for a new connection."""
        self._line.close()

    # From bytes to requests

    def _expect_head(self) -> None:
        self._is_in_head = True
        self._num_in_head = 0
        self._num_chunking = 0
        self._missing = 0
        self._overload: OverloadedError | None = None

    def _advance(self) -> None:
        """Parse what came of the request at hand."""
        self._unset_keepalive_if_required()
        try:
            while self._buffer and not self._is_answering() and (size := self._size_of_piece()):
                piece = bytes(self._buffer[:size])
                del self._buffer[:size]
                self._parse(piece)
        except WireError as error:
            self._refuse(error.status)
        else:
            self._watch_pace()

    def _size_of_piece(self) -> int:
        """How many of the next bytes hold nothing of a following request; possibly none.

        Raises:
            WireError: If a head or a body in chunks is over a limit.
        """
        if self._missing:
            return self._missing
        if self._num_in_head >= MAX_HEAD_BYTES:
            raise WireError(414 if len(self.url) > MAX_TARGET_BYTES else 431)
        if self._num_chunking > _MAX_CHUNKING_BYTES:
            raise WireError(413)
        limit = MAX_HEAD_BYTES - self._num_in_head
        end = self._buffer.find(_END, 0, limit)
        # What may be the beginning of an end waits for the rest of it.
        size = end + len(_END) if end >= 0 else len(self._buffer[:limit].rstrip(_END))
        if self._is_in_head:
            self._num_in_head += size
        else:
            # What looks like an end is charged even within the content: each costs a piece.
            self._num_chunking += size + (len(_END) if end >= 0 else 0)
        return size

    def _parse(self, piece: bytes) -> None:
        self._fault = WireError(400)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            # llhttp leaves the body to the other protocol; none is spoken here, so it is to forget the wish.
            head = self._head_without_upgrade()
            self.parser = httptools.HttpRequestParser(self)
            self._parse(head)
        except httptools.HttpParserInvalidMethodError:
            is_request = len(piece) == self._num_in_head and begins_with_request_line(piece)
            raise WireError(405) if is_request else self._fault from None
        except httptools.HttpParserError:
            # A parser that did not come so far says 0.0.
            is_known = self.parser.get_http_version() in ("0.0", "1.0", "1.1")
            raise self._fault if is_known else WireError(505) from None

    def _head_without_upgrade(self) -> bytes:
        fields = [b"%b: %b\r\n" % field for field in self.headers if field[0] != b"upgrade"]
        version = self.parser.get_http_version().encode("ascii")
        return b"%b %b HTTP/%b\r\n%b\r\n" % (self.parser.get_method(), self.url, version, b"".join(fields))

    # What the parser tells

    def on_headers_complete(self) -> None:
        """Begin to answer, unless the head is to be refused."""
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
        self._door.occupy(self)
        if not self.url.startswith(b"/"):
            # We are no proxy: another server's address is a path that we do not have.
            self.scope["path"] = self.url.decode("ascii")
        # Fields behind the last chunk are no part of the head.
        self.headers = []
        # Who is answered before all was read hears that nobody will read the rest.
        self._is_kept_alive, self.cycle.keep_alive = self.cycle.keep_alive, False

    def _check_head(self) -> None:
        version = self.parser.get_http_version()
        self.headers[:] = [(name, value.rstrip(b" \t")) for name, value in self.headers]
        length = body_length(self.parser.get_method(), self.url, version, self.headers)
        self._is_in_head = False
        self._missing = length or 0
        self._is_chunked = length is None
        # The version before knows no invitations.
        self.expect_100_continue &= version != "1.0"

    def _admit(self) -> bool:
        """Take a permit for the request, or refuse it, at the latest when its body has been read.

        Returns:
            Whether the application gets the request.
        """
        length = None if self._is_chunked else self._missing
        try:
            permit = self._admission.admit(
                self.parser.get_method(), self.url, self.headers, self.client, length
            )
        except OverloadedError as overload:
            self._overload = overload
            if length is None or length > _UNREAD_BYTES or self.expect_100_continue:
                # The rest of the body, which the client may not even have sent yet, is not waited for.
                self._refuse_overload(overload, ends=True)
            return False
        if permit is not None:
            self.scope["state"][PERMIT] = permit
        return True

    def on_body(self, body: bytes) -> None:
        """Pass it on."""
        if self._missing:
            self._missing -= len(body)
        else:
            self._num_chunking -= len(body)
        if self._overload is None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """See that the next request can follow."""
        if self._is_in_head:
            return
        if self._overload is not None:
            self._refuse_overload(self._overload, ends=not self.parser.should_keep_alive())
            self._expect_head()
            return
        if not self.cycle.response_started:
            self.cycle.keep_alive = self._is_kept_alive
        self._expect_head()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with what the client sent ahead."""
        self._door.rest(self)
        super().on_response_complete()
        if self._buffer:
            self._advance()
            self.flow.resume_reading()

    # Where the connection stands

    def _is_answering(self) -> bool:
        """Whether a whole request was read and is not answered yet."""
        cycle = self.cycle
        return cycle is not None and not cycle.more_body and not cycle.response_complete

    def _is_receiving(self) -> bool:
        """Whether a request has begun and not ended; some clients send an empty line behind theirs."""
        is_next = not self._is_answering() and bool(self._buffer.strip(b"\r\n"))
        return self._num_in_head > 0 or is_next or not self._is_in_head

    def _has_enough(self) -> bool:
        """Whether so much waits for its turn that nothing more should come."""
        return len(self._buffer) > _UNREAD_BYTES

    def _is_closing(self) -> bool:
        return self._is_hanging_up or self._line.is_closing()

    # An end to those who dawdle

    def _watch_pace(self) -> None:
        if self._is_receiving():
            self._receiving.watch()
            return
        self._receiving.stop()
        if not self._is_answering():
            self._await_request()

    def _await_request(self) -> None:
        """Bear with a client that has no request at hand; uvicorn does so itself behind its answers."""
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def _turn_away(self) -> None:
        """There is no room; if there is even less, not a word."""
        if self._door.is_overrun:
            self._line.abort()
        else:
            self._refuse(503)

    def _refuse_overload(self, overload: OverloadedError, *, ends: bool) -> None:
        if self._is_closing():
            return
        given = next((value for name, value in self.headers if name == b"x-request-id"), b"")
        self._line.write(overloaded(overload, sane_request_id(given.decode("latin-1")), ends=ends))
        if ends:
            self._hang_up()

    def _refuse(self, status: int) -> None:
        """Answer if that is still possible, and hang up."""
        cycle, request_id = self.cycle, new_request_id()
        if cycle is None or cycle.response_complete:
            self._count_refusal(code_of(status), status)
        else:
            state = cycle.scope.setdefault("state", {})
            request_id = state.get("request_id", request_id)
            if not cycle.response_started:
                state[WIRE_STATUS] = status
            cycle.disconnected = True
            cycle.message_event.set()
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self._line.write(refusal(status, request_id))
        details = {"status": status, "code": code_of(status), "request_id": request_id}
        logger.info("request refused", extra=details)
        self._hang_up()

    def _close(self) -> None:
        """Close at once if the client has nothing on its way, as far as is known."""
        if self._is_receiving() or self._buffer:
            self._hang_up()
        else:
            self._line.close()

    def _hang_up(self) -> None:
        """Send nothing more, and close once the client has had time to hear what was sent."""
        if self._is_closing():
            return
        self._is_hanging_up = True
        self._receiving.stop()
        self._buffer.clear()
        self.flow.resume_reading()
        self._line.write_eof()
        self.loop.call_later(_LINGER_SECONDS, self._line.close)

    def _discard(self, data: bytes) -> None:
        self._num_discarded += len(data)
        if self._num_discarded > _LINGER_BYTES:
            self._line.abort()
