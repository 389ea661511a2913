"""⑨ An answer of unknown length to a client that knows no chunks: it ends where the connection ends."""

from starlette.types import Message
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


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
