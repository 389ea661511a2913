"""What a front and a replica exchange: an HTTP request as data, and the messages of its answer."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final, Protocol

from starlette.types import ASGIApp, Message, Scope

from app.http.receiving import WAITED

_FIELDS: Final = (
    "type",
    "asgi",
    "http_version",
    "method",
    "scheme",
    "path",
    "raw_path",
    "root_path",
    "query_string",
    "headers",
    "client",
    "server",
)


class Cluster(Protocol):
    """The replicas of a cluster."""

    @property
    def translation(self) -> "Replicas":
        """Those that answer everything except files."""

    @property
    def files(self) -> "Replicas":
        """The one that has the translated files, and the jobs that translate them."""

    async def expositions(self) -> dict[str, str]:
        """Returns the metrics of each replica in Prometheus' text format, by its name."""

    def leave(self) -> None:
        """Leave the cluster; blocks."""


class Replicas(Protocol):
    """Replicas that can all answer the same requests."""

    def respond(self, scope: Scope, body: bytes, model_key: str) -> AsyncGenerator[Message, None]:
        """Yields the ASGI messages of the answer; closing the iterator cancels the request.

        Args:
            scope: The request, as `portable_scope` returns it.
            body: Its whole body.
            model_key: The same for requests that need the same models, so that they go to replicas that have
                these in memory; empty if that is unknown.

        Raises:
            ReplicaLostError: If the replica has ended before the last message.
        """


class ReplicaLostError(Exception):
    """A replica has ended, or there is none; another one may answer the same request."""


def portable_scope(scope: Scope, request_id: str, waited: float) -> Scope:
    """Returns what a replica needs of a request.

    Args:
        scope: The request as the front got it.
        request_id: Under which both log it.
        waited: Seconds since it arrived.
    """
    headers = [field for field in scope["headers"] if field[0] != b"x-request-id"]
    headers.append((b"x-request-id", request_id.encode()))
    return {name: scope[name] for name in _FIELDS if name in scope} | {
        "headers": headers,
        "state": {WAITED: waited},
    }


async def answer_messages(app: ASGIApp, scope: Scope, body: bytes) -> AsyncGenerator[Message, None]:
    """Yields the messages of an application's answer; closing the generator tells it that the client left.

    Args:
        app: The application.
        scope: The request, as `portable_scope` returns it.
        body: Its whole body.
    """
    messages: asyncio.Queue[Message | None] = asyncio.Queue()
    has_left = asyncio.Event()
    received: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if received:
            return received.pop()
        await has_left.wait()
        return {"type": "http.disconnect"}

    async def run() -> None:
        await app(scope, receive, messages.put)

    answering = asyncio.create_task(run())
    answering.add_done_callback(lambda _: messages.put_nowait(None))
    try:
        while (message := await messages.get()) is not None:
            yield message
    finally:
        has_left.set()
        with suppress(asyncio.CancelledError):
            await answering
