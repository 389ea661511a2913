"""① ⑨ The middleware of every request: its id, its access record, cross-origin access, unforeseen errors."""

import asyncio
import logging
import re
from collections.abc import Collection, Sequence

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.admission.gate import PERMIT, WORK_PATHS, Permit
from app.errors import DrainingError
from app.http.body import header_of
from app.http.errors import CLIENT_GONE, WIRE_STATUS, RequestError, error_response, wire_code
from app.http.openapi import ENDPOINT
from app.lifecycle.context import Context
from app.lifecycle.phase import Phase
from app.scheduling.fair_queue import StartLimiter
from app.telemetry.access_record import AccessRecord
from app.telemetry.logs import Event, new_request_id, request_id
from app.telemetry.metrics import UNMATCHED
from app.telemetry.timings import clock, reset_current_timings, server_timing, set_current_timings

REQUEST_ID_HEADER = "X-Request-ID"
_REQUEST_ID = REQUEST_ID_HEADER.lower().encode()
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_CLOSE = (b"connection", b"close")
_SANE_ID = re.compile(r"[A-Za-z0-9._~+/=:@-]{1,128}")

logger = logging.getLogger(__name__)


class InFlightRequest(AccessRecord):
    """One request in progress: its answer is sent through it.

    Args:
        scope: The scope of the request.
        send: Sends its answer.
        is_last: Whether its connection ends with the answer.

    Attributes:
        has_begun: Whether the answer has begun.
    """

    def __init__(self, scope: Scope, send: Send, *, is_last: bool) -> None:
        super().__init__(
            sane_request_id(header_of(scope, _REQUEST_ID)), method=scope["method"], headers=scope["headers"]
        )
        self.has_begun = False
        # If nothing is sent, the server closes the connection.
        self.status = CLIENT_GONE
        self._state = scope.setdefault("state", {})
        self._state["request_id"] = self.request_id
        self._send = send
        self._is_last = is_last
        self._is_complete = False

    async def send(self, message: Message) -> None:
        """Send a part of the answer; the head gets the id, the timings and other header fields."""
        if message["type"] == "http.response.start":
            self.has_begun = True
            self.status = message["status"]
            headers = [*message.get("headers", ()), (_REQUEST_ID, self.request_id.encode()), _NO_SNIFFING]
            if self.timings.spans:
                headers.append((b"server-timing", server_timing(self.timings)))
            if self._is_last:
                headers.append(_CLOSE)
            message = {**message, "headers": headers}
        await self._send(message)
        self._is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)

    def end(self, endpoint: str) -> str | None:
        """Record how the request ended.

        It was `refused` with 4xx and 503, `abandoned` with a 499 or an incomplete answer, else `answered`.

        Args:
            endpoint: One of our paths, or `unmatched`.

        Returns:
            The error code if the connection has answered instead of the application; None otherwise.
        """
        self.ended = clock()
        self.endpoint = endpoint
        wire_status: int | None = self._state.get(WIRE_STATUS)
        status = self.status = wire_status or self.status
        self.has_failed = status >= 500
        if status == CLIENT_GONE or not (self._is_complete or wire_status):
            self.outcome = "abandoned"
        else:
            self.outcome = "refused" if 400 <= status < 500 or status == 503 else "answered"
        return None if wire_status is None else wire_code(wire_status)

    def release_permit(self) -> None:
        """Give the request's permit back to the gate, if it holds one."""
        permit: Permit | None = self._state.get(PERMIT)
        if permit is not None:
            permit.release()


def sane_request_id(given: str) -> str:
    """Returns a client's id if it is short and plain, else a new one."""
    return given if _SANE_ID.fullmatch(given) else new_request_id()


class CrossOriginMiddleware(CORSMiddleware):
    """Permits the pages of some origins to send requests, without cookies.

    Args:
        app: The application.
        origins: Such as `https://example.org`, or `*` alone.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=["DELETE", "GET", "PATCH", "POST", "PUT"],
            allow_headers=["Authorization", "Content-Type", REQUEST_ID_HEADER],
            expose_headers=["Retry-After", "Server-Timing", REQUEST_ID_HEADER],
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """Returns the answer to a browser's preflight request.

        Raises:
            RequestError: If its page may not send the request.
        """
        response = super().preflight_response(request_headers)
        if response.status_code >= 400:
            message = "this origin may not ask, or not with this method or these headers (CORS_ORIGINS)"
            raise RequestError("cross_origin_refused", message, headers={"Vary": "Origin"})
        return response


class RequestContextMiddleware:
    """Gives each request an id, counts and logs it, and answers any other exception with 500.

    At any time the number of accepted requests equals those with an outcome plus those in flight: each
    transition is made without an await, so that no scrape sees it half done.

    Args:
        app: The application.
        context: Counts and records the requests.
        endpoints: Paths that become metric labels; all others are `unmatched`.
    """

    def __init__(self, app: ASGIApp, context: Context, endpoints: Collection[str]) -> None:
        self._app = app
        self._context = context
        self._endpoints = frozenset(endpoints)
        self._start_limiter = StartLimiter()
        context.metrics.expect_endpoints(endpoints, status=200)
        context.metrics.watch_process(
            is_ready=lambda: context.lifecycle.phase is Phase.READY and context.watchdog.is_healthy,
            in_flight=lambda: context.lifecycle.in_flight,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        lifecycle = self._context.lifecycle
        request = InFlightRequest(scope, send, is_last=lifecycle.phase is Phase.DRAINING)
        id_token, timings_token = request_id.set(request.request_id), set_current_timings(request.timings)
        lifecycle.enter()
        self._context.metrics.count_accepted()
        try:
            if scope["method"] == "POST" and scope["path"] in WORK_PATHS:
                # A request that arrived before the shutdown began is served.
                lifecycle.require_ready()
                if not self._start_limiter.may_start():
                    await self._wait(request, scope)
            await self._app(_as_get(scope), receive, request.send)
        except Exception as fault:
            # Otherwise the connection would end without an answer.
            await self._answer_error(fault, request, scope, receive)
        except asyncio.CancelledError:
            if not lifecycle.is_forced:
                raise
            await self._answer_error(DrainingError(), request, scope, receive)
        finally:
            lifecycle.leave()
            request.release_permit()
            self._record(request, scope)
            request_id.reset(id_token)
            reset_current_timings(timings_token)

    async def _wait(self, request: InFlightRequest, scope: Scope) -> None:
        with request.timings.during("queue"):
            await self._start_limiter.wait(scope["client"][0] if scope.get("client") else "")

    async def _answer_error(
        self, fault: Exception, request: InFlightRequest, scope: Scope, receive: Receive
    ) -> None:
        response = error_response(fault, Request(scope, receive))
        if not request.has_begun:
            await response(scope, receive, request.send)

    def _record(self, request: InFlightRequest, scope: Scope) -> None:
        endpoint = scope["state"].get(ENDPOINT, scope["path"])
        code = request.end(endpoint if endpoint in self._endpoints else UNMATCHED)
        metrics, tracing = self._context.metrics, self._context.tracing
        if code is not None:
            metrics.count_rejection(code)
        metrics.count_finished(request.endpoint, request.status, request.outcome, request.seconds)
        fields = request.log_fields()
        if tracing is not None:
            fields["trace_id"] = tracing.record(request)
        if logger.isEnabledFor(level := request.level):
            logger.handle(Event(logger.name, level, "request", fields))


def _as_get(scope: Scope) -> Scope:
    """Returns the scope with GET instead of HEAD; the connection leaves out the body of the answer."""
    return {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
