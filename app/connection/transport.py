"""① ⑨ Between uvicorn's protocol and the transport: reading and closing."""

import asyncio
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl


class LingeringTransport:
    """A transport whose end is the protocol's business.

    Args:
        transport: What it passes everything else on to.
        close: Is called in the place of its own.
        is_closing: Is asked in the place of its own.
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
    """Reads on only while too little waits for its turn.

    Args:
        transport: What is read from.
        has_enough: Whether so much waits that nothing more should come.
    """

    def __init__(self, transport: asyncio.Transport, has_enough: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._has_enough = has_enough

    def resume_reading(self) -> None:
        """Read on, unless enough waits."""
        if not self._has_enough():
            super().resume_reading()
