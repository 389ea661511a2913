"""① ⑨ Between uvicorn's protocol and the transport: reading, closing, answers of unknown length."""

import asyncio
from collections.abc import Callable

from starlette.types import Message
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


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


def delimit_by_closing(cycle: RequestResponseCycle) -> None:
    """Keep uvicorn from cutting the answer to an HTTP/1.0 request into chunks.

    Args:
        cycle: Of a request that nobody answers yet, on a connection that ends with it.
    """
    send = cycle.send
    has_length = False

    async def send_unchunked(message: Message) -> None:
        nonlocal has_length
        if message["type"] == "http.response.start":
            has_length = any(name.lower() == b"content-length" for name, _ in message.get("headers", ()))
            if not has_length:
                # Neither None, which means "not decided yet", nor True.
                cycle.chunked_encoding = False
        elif not has_length:
            cycle.expected_content_length = len(message.get("body", b""))
        await send(message)  # type: ignore[arg-type]

    cycle.send = send_unchunked  # type: ignore[method-assign, assignment]
