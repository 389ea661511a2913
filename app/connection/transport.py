"""① ⑨ What uvicorn's protocol sees of the transport: it neither closes it nor resumes reading by itself."""

import asyncio
from collections.abc import Callable
from typing import Final

from uvicorn.protocols.http.flow_control import FlowControl

_HEAD: Final = b"HTTP/1.1 "
_INTERIM: Final = b"HTTP/1.1 1"


class LingeringTransport:
    """A transport whose protocol decides how it closes, and that sends the head of an answer with its body.

    Args:
        transport: Gets all other calls.
        close: Is called instead of the transport's own method.
        is_closing: Is called instead of the transport's own method.
    """

    def __init__(
        self, transport: asyncio.Transport, close: Callable[[], None], is_closing: Callable[[], bool]
    ) -> None:
        self._transport = transport
        self._close = close
        self._head = b""
        self.is_closing = is_closing

    def write(self, data: bytes) -> None:
        """Send bytes; the head of an answer waits for what follows, since two packets cost twice as much."""
        if not self._head and data.startswith(_HEAD) and not data.startswith(_INTERIM):
            self._head = data
        else:
            data, self._head = self._head + data, b""
            self._transport.write(data)

    def flush(self) -> None:
        """Send a head that nothing follows."""
        if self._head:
            self.write(b"")

    def close(self) -> None:
        """Send what waits, and let the protocol close."""
        self.flush()
        self._close()

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)


class Flow(FlowControl):
    """Resumes reading only if few bytes wait to be parsed.

    Args:
        transport: Is read from.
        has_enough: Whether so many bytes wait that no more should arrive.
    """

    def __init__(self, transport: asyncio.Transport, has_enough: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._has_enough = has_enough

    def resume_reading(self) -> None:
        """Resume, unless enough bytes wait."""
        if not self._has_enough():
            super().resume_reading()
