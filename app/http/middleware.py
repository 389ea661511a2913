"""① ⑨ What surrounds every request: its id, its access record, cross-origin access, unforeseen faults."""

import asyncio
import logging
import re
from collections.abc import Collection, Iterator, Sequence

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.admission.gate import PERMIT, WORK, Permit
from app.errors import DrainingError
from app.http.errors import CLIENT_GONE, RequestError, respond
from app.http.rejection import WIRE_STATUS, code_of
from app.http.start_limiter import Turnstile
from app.lifecycle.context import Context
from app.lifecycle.phase import Phase
from app.telemetry.access_record import AccessRecord
from app.telemetry.logs import new_request_id, request_id
from app.telemetry.metrics import UNMATCHED
from app.telemetry.timings import Timings, begin, clock, end, server_timing

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
        self.timings = Timings()
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

    def close(self, endpoint: str) -> AccessRecord:
        """What is to be told of it, now that it is over.

        Args:
            endpoint: One of a closed set.
        """
        return AccessRecord(
            request_id=self.request_id,
            method=self._method,
            endpoint=endpoint,
            status=self.status,
            has_failed=self.status >= 500,
            outcome=self.outcome,
            headers=self._headers,
            began=self._began,
            ended=clock(),
            timings=self.timings,
        )

    def release_permit(self) -> None:
        """Give the request's permit back to the gate, if it holds one."""
        permit: Permit | None = self._state.get(PERMIT)
        if permit is not None:
            permit.release()

    def _fields(self) -> Iterator[tuple[bytes, bytes]]:
        yield b"x-request-id", self.request_id.encode()
        yield _NO_SNIFFING
        if self.timings.spans:
            yield b"server-timing", server_timing(self.timings)
        if self._is_last:
            yield _CLOSE


def sane_request_id(given: str) -> str:
    """A caller's id if it is short and plain, else a new one."""
    return given if _SANE_ID.fullmatch(given) else new_request_id()


class CrossOriginMiddleware(CORSMiddleware):
    """Lets the pages of some origins ask; no cookies are involved.

    Args:
        app: What answers.
        origins: Such as `https://example.org`, or `*` alone.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", REQUEST_ID_HEADER],
            expose_headers=["Retry-After", "Server-Timing", REQUEST_ID_HEADER],
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """What a browser hears before it asks.

        Raises:
            RequestError: If its page may not ask, or not so.
        """
        response = super().preflight_response(request_headers)
        if response.status_code >= 400:
            message = "this origin may not ask, or not with this method or these headers (CORS_ORIGINS)"
            raise RequestError("cross_origin_refused", message, headers={"Vary": "Origin"})
        return response


logger = logging.getLogger(__name__)


class RequestContextMiddleware:
    """Gives each request an id, counts and logs it, and turns any stray exception into a 500.

    At any moment as many requests were accepted as have an outcome or are in flight: each of the two
    steps between these is taken without giving way to anybody, the scrape included.

    Args:
        app: What answers.
        context: Where it is counted.
        endpoints: Paths that become metric labels; all others are `unmatched`.
    """

    def __init__(self, app: ASGIApp, context: Context, endpoints: Collection[str]) -> None:
        self._app = app
        self._context = context
        self._endpoints = frozenset(endpoints)
        self._turnstile = Turnstile()
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
        account = Account(scope, send, is_last=lifecycle.phase is Phase.DRAINING)
        tokens = request_id.set(account.request_id), begin(account.timings)
        lifecycle.enter()
        self._context.metrics.count_accepted()
        try:
            await self._answer(account, scope, receive)
        finally:
            lifecycle.leave()
            account.release_permit()
            self._record(account, scope)
            request_id.reset(tokens[0])
            end(tokens[1])

    async def _answer(self, account: Account, scope: Scope, receive: Receive) -> None:
        try:
            if scope["method"] == "POST" and scope["path"] in WORK:
                await self._begin(account, scope)
            await self._app(_without_head(scope), receive, account.send)
        except Exception as fault:
            # The last line of defence: without it the server would answer in its own words.
            await self._explain(fault, account, scope, receive)
        except asyncio.CancelledError:
            if not self._context.lifecycle.is_forced:
                raise
            await self._explain(DrainingError(), account, scope, receive)

    async def _begin(self, account: Account, scope: Scope) -> None:
        """Whether it is served is decided when it comes: what came before the end began is served."""
        self._context.lifecycle.require_ready()
        if not self._turnstile.passes():
            with account.timings.during("queue"):
                await self._turnstile.wait(scope["client"][0] if scope.get("client") else "")

    async def _explain(self, fault: Exception, account: Account, scope: Scope, receive: Receive) -> None:
        response = respond(fault, Request(scope, receive))
        if not account.has_begun:
            await response(scope, receive, account.send)

    def _record(self, account: Account, scope: Scope) -> None:
        record = account.close(scope["path"] if scope["path"] in self._endpoints else UNMATCHED)
        metrics, tracing = self._context.metrics, self._context.tracing
        if account.refused_by_connection:
            metrics.count_rejected(code_of(record.status))
        metrics.count_finished(record.endpoint, record.status, record.outcome, record.seconds)
        event = record.log_fields()
        if tracing is not None:
            event["trace_id"] = tracing.record(record)
        logger.log(record.level, "request", extra=event)


def _without_head(scope: Scope) -> Scope:
    """HEAD as GET, for every path; the server keeps the body of the answer back."""
    return {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
