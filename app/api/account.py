"""⑨ What became of one request: its id, its answer as far as it went, and under what that is counted."""

import re
from collections.abc import Iterator

from starlette.datastructures import Headers
from starlette.types import Message, Scope, Send

from app.api.codes import CLIENT_GONE
from app.api.wire.refusal import WIRE_STATUS
from app.telemetry.logs import new_request_id
from app.telemetry.stages import Stages, clock, server_timing
from app.telemetry.visit import Visit

REQUEST_ID_HEADER = "X-Request-ID"
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_CLOSE = (b"connection", b"close")
_SANE_ID = re.compile(r"[A-Za-z0-9._~+/=:@-]{1,128}")


class Account:
    """One request; whoever answers it sends through this.

    Args:
        scope: Of the request.
        send: Where its answer goes.
        is_last: Whether its connection is to end with it.

    Attributes:
        request_id: The caller's if it is short and plain, else a new one.
        stages: Where its time goes.
        has_begun: Whether an answer is on its way.
    """

    def __init__(self, scope: Scope, send: Send, *, is_last: bool) -> None:
        self._headers = Headers(scope=scope)
        self.request_id = sane_request_id(self._headers.get(REQUEST_ID_HEADER, ""))
        self.stages = Stages()
        self.has_begun = False
        self._began = clock()
        self._method = scope["method"]
        self._state = scope.setdefault("state", {})
        self._state["request_id"] = self.request_id
        self._send = send
        self._is_last = is_last
        # Without any answer the server is about to cut the connection off.
        self._status = CLIENT_GONE
        self._is_complete = False

    async def send(self, message: Message) -> None:
        """Pass an answer on, with the id and what took how long among its headers."""
        if message["type"] == "http.response.start":
            self.has_begun = True
            self._status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), *self._fields()]}
        await self._send(message)
        self._is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)

    @property
    def refused_by_connection(self) -> bool:
        """Whether its connection gave the answer, in the place of whoever worked on it."""
        return WIRE_STATUS in self._state

    @property
    def status(self) -> int:
        """What the client was told."""
        return int(self._state.get(WIRE_STATUS, self._status))

    @property
    def outcome(self) -> str:
        """One of OUTCOMES: a fault of ours is an answer; one of the client's, or no room, a refusal."""
        is_heard = self._is_complete or self.refused_by_connection
        if not is_heard or self.status == CLIENT_GONE:
            return "abandoned"
        return "refused" if 400 <= self.status < 500 or self.status == 503 else "answered"

    def close(self, endpoint: str) -> Visit:
        """What is to be told of it, now that it is over.

        Args:
            endpoint: One of a closed set.
        """
        return Visit(
            request_id=self.request_id,
            method=self._method,
            endpoint=endpoint,
            status=self.status,
            has_failed=self.status >= 500,
            outcome=self.outcome,
            headers=self._headers,
            began=self._began,
            ended=clock(),
            stages=self.stages,
        )

    def _fields(self) -> Iterator[tuple[bytes, bytes]]:
        yield b"x-request-id", self.request_id.encode()
        yield _NO_SNIFFING
        if self.stages.spans:
            yield b"server-timing", server_timing(self.stages)
        if self._is_last:
            yield _CLOSE


def sane_request_id(given: str) -> str:
    """A caller's id if it is short and plain, else a new one."""
    return given if _SANE_ID.fullmatch(given) else new_request_id()
