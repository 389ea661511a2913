"""① ⑨ Around every request: its id, its time, its log line, and an answer whatever happens."""

import logging
import re
import time
from collections.abc import Collection
from functools import cache

from prometheus_client import Counter, Histogram
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import respond
from app.context import Context
from app.lifecycle import Phase
from app.logs import new_request_id, request_id

logger = logging.getLogger(__name__)

REQUEST_ID_HEADER = "X-Request-ID"
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_CLOSE = (b"connection", b"close")
_SANE_ID = re.compile(r"[A-Za-z0-9._~+/=:@-]{1,128}")


class RequestContextMiddleware:
    """Gives each request an id, counts and logs it, and turns any stray exception into a 500.

    Args:
        app: What answers.
        context: Where it is counted.
        endpoints: Paths that become metric labels; all others are `unmatched`.
    """

    def __init__(self, app: ASGIApp, context: Context, endpoints: Collection[str]) -> None:
        self._app = app
        self._context = context
        self._endpoints = frozenset(endpoints)
        context.metrics.expect_endpoints(endpoints)
        context.metrics.in_flight.set_function(lambda: context.lifecycle.in_flight)
        # Looking a series up costs as much as adding to it; there are as many as endpoints times statuses.
        self._series = cache(self._find_series)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        lifecycle = self._context.lifecycle
        exchange = _Exchange(scope, send, lifecycle.phase is Phase.DRAINING)
        token = request_id.set(exchange.request_id)
        lifecycle.in_flight += 1
        try:
            await self._answer(exchange, scope, receive)
        finally:
            lifecycle.in_flight -= 1
            self._record(exchange, scope)
            request_id.reset(token)

    async def _answer(self, exchange: "_Exchange", scope: Scope, receive: Receive) -> None:
        try:
            await self._app(_without_head(scope), receive, exchange.send)
        except Exception as fault:
            # The last line of defence: without it the server would answer in its own words.
            response = respond(fault, Request(scope, receive))
            if exchange.status is None:
                await response(scope, receive, exchange.send)

    def _record(self, exchange: "_Exchange", scope: Scope) -> None:
        seconds = time.monotonic() - exchange.began
        endpoint = scope["path"] if scope["path"] in self._endpoints else "unmatched"
        # Without any answer the server is about to cut the connection off.
        status = exchange.status or 499
        requests, request_duration = self._series(endpoint, status)
        requests.inc()
        request_duration.observe(seconds)
        details = {"endpoint": endpoint, "status": status, "seconds": round(seconds, 4)}
        logger.info("request", extra=details)

    def _find_series(self, endpoint: str, status: int) -> tuple[Counter, Histogram]:
        metrics = self._context.metrics
        return metrics.requests.labels(endpoint, str(status)), metrics.request_duration.labels(endpoint)


class _Exchange:
    """One request's id and what has been answered so far."""

    def __init__(self, scope: Scope, send: Send, is_last: bool) -> None:
        self.began = time.monotonic()
        self.status: int | None = None
        self.request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = self.request_id
        self._send = send
        self._is_last = is_last

    async def send(self, message: Message) -> None:
        """Pass an answer on, with the id among its headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), (b"x-request-id", self.request_id.encode()), _NO_SNIFFING]
            message = {**message, "headers": [*headers, _CLOSE] if self._is_last else headers}
        await self._send(message)


def _without_head(scope: Scope) -> Scope:
    """HEAD as GET, for every path; the server keeps the body of the answer back."""
    return {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope


def _request_id(scope: Scope) -> str:
    """The caller's id if it is short and plain, else a new one."""
    given = Headers(scope=scope).get(REQUEST_ID_HEADER, "")
    return given if _SANE_ID.fullmatch(given) else new_request_id()
