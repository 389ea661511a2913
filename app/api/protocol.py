"""① HTTP/1.1 on the wire: uvicorn's protocol, with our error body, and an end to clients that only dawdle."""

import asyncio
import json
import sys
import uuid
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from app.api.framing import StrictConnection
from app.api.head import MAX_HEAD_BYTES

# The least pace of a request that has begun, and of a client that reads its answer: who sends or takes
# a byte now and then would otherwise hold a connection for ever.
_SECONDS: Final = 6.0
_BYTES: Final = 16 * 1024
# How long a refused client may go on sending; closing at once would make the kernel reset the connection,
# which can destroy the answer on its way.
_LINGER_SECONDS: Final = 2.0

_REFUSALS: Final = {
    400: ("malformed_request", "this is not an HTTP/1.1 request"),
    408: ("request_too_slow", f"the request came at less than {_BYTES} bytes in {_SECONDS:.0f} s"),
    413: ("too_many_chunks", "the body came in too many chunks; send larger ones"),
    431: ("head_too_large", "the head of the request is too large"),
    505: ("unsupported_version", "only HTTP/1.1 and HTTP/1.0 are spoken here"),
}


class Protocol(H11Protocol):
    """One connection; see uvicorn's."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn = StrictConnection(MAX_HEAD_BYTES)
        self._num_received = 0
        self._is_refused = False
        self._receiving = _Timer(self.loop)
        self._stalling = _Timer(self.loop)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; a connection that nothing ever comes from ends like one that was kept alive."""
        super().connection_made(transport)
        # So that `pause_writing` means: the client leaves something unread.
        transport.set_write_buffer_limits(high=0)
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._receiving.cancel()
        self._stalling.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, and see that the rest comes soon."""
        if not self._is_refused:
            self._num_received += len(data)
            super().data_received(data)
            self._watch_pace()

    def on_response_complete(self) -> None:
        """Go on with what the client sent ahead."""
        super().on_response_complete()
        self._watch_pace()

    def pause_writing(self) -> None:
        """Give the client a while to read."""
        super().pause_writing()
        self._stalling.start(self.transport.abort)

    def resume_writing(self) -> None:
        """It has read everything."""
        self._stalling.cancel()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse; uvicorn calls this while it handles the parser's error, which knows the status."""
        fault = sys.exc_info()[1]
        self._refuse(fault.error_status_hint if isinstance(fault, h11.RemoteProtocolError) else 400)

    def _watch_pace(self) -> None:
        if not self._is_receiving():
            self._receiving.cancel()
        elif not self._receiving.is_running:
            num_before = self._num_received
            self._receiving.start(lambda: self._check_pace(self._num_received - num_before))

    def _is_receiving(self) -> bool:
        """Whether a request has begun and not ended."""
        state = self.conn.their_state
        return state is h11.SEND_BODY or (state is h11.IDLE and bool(self.conn.trailing_data[0]))

    def _check_pace(self, num_received: int) -> None:
        if num_received < _BYTES:
            self._refuse(408)
        else:
            self._watch_pace()

    def _refuse(self, status: int) -> None:
        """Answer if that is still possible, and hang up."""
        self._is_refused = True
        self._receiving.cancel()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(self._refusal(status if status in _REFUSALS else 400))
        self.flow.resume_reading()
        self.transport.write_eof()
        self.loop.call_later(_LINGER_SECONDS, self.transport.close)

    def _refusal(self, status: int) -> bytes:
        code, error = _REFUSALS[status]
        request_id = uuid.uuid4().hex
        body = json.dumps({"error": error, "code": code, "request_id": request_id}).encode()
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("X-Request-ID", request_id),
            ("Connection", "close"),
        ]
        head = h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase)
        events = (head, h11.Data(data=body), h11.EndOfMessage())
        return b"".join(self.conn.send(event) or b"" for event in events)


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
