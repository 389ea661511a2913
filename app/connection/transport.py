"""① ⑨ What uvicorn's protocol sees of the transport: it neither closes it nor resumes reading by itself."""

import asyncio
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl


class LingeringTransport:
    """A transport whose protocol decides how it closes.

    Args:
        transport: Gets all other calls.
        close: Is called instead of the transport's own method.
        is_closing: Is called instead of the transport's own method.
    """

    def __init__(
        self, transport: asyncio.Transport, close: Callable[[], None], is_closing: Callable[[], bool]
    ) -> None:
        self._transport = transport
        self.write = transport.write
        self.close = close
        self.is_closing = is_closing

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
