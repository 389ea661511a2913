"""① ⑨ Around every request: its id, its time, its log line, and an answer whatever happens."""

import asyncio
import logging
from collections.abc import Collection
from functools import cache

from prometheus_client import Counter, Histogram
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.account import Account
from app.api.errors import respond
from app.api.turnstile import Turnstile
from app.api.wire.porter import WORK
from app.api.wire.refusal import code_of
from app.context import Context
from app.errors import DrainingError
from app.health.lifecycle import Phase
from app.telemetry.logs import request_id
from app.telemetry.metrics import UNMATCHED
from app.telemetry.stages import begin, end

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
        context.metrics.in_flight.set_function(lambda: context.lifecycle.in_flight)
        context.metrics.ready.set_function(
            lambda: context.lifecycle.phase is Phase.READY and context.watchdog.is_content
        )
        # Looking a series up costs as much as adding to it; there are as many as endpoints times statuses.
        self._series = cache(self._find_series)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        lifecycle = self._context.lifecycle
        account = Account(scope, send, is_last=lifecycle.phase is Phase.DRAINING)
        tokens = request_id.set(account.request_id), begin(account.stages)
        lifecycle.enter()
        self._context.metrics.accepted.inc()
        try:
            await self._answer(account, scope, receive)
        finally:
            lifecycle.leave()
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
            if not self._context.lifecycle.is_cut_short:
                raise
            await self._explain(DrainingError(), account, scope, receive)

    async def _begin(self, account: Account, scope: Scope) -> None:
        """Whether it is served is decided when it comes: what came before the end began is served."""
        self._context.lifecycle.require_ready()
        if not self._turnstile.passes():
            with account.stages.during("queue"):
                await self._turnstile.wait(scope["client"][0] if scope.get("client") else "")

    async def _explain(self, fault: Exception, account: Account, scope: Scope, receive: Receive) -> None:
        response = respond(fault, Request(scope, receive))
        if not account.has_begun:
            await response(scope, receive, account.send)

    def _record(self, account: Account, scope: Scope) -> None:
        visit = account.close(scope["path"] if scope["path"] in self._endpoints else UNMATCHED)
        metrics, tracing = self._context.metrics, self._context.tracing
        if account.refused_by_connection:
            metrics.rejected.labels(code_of(visit.status)).inc()
        requests, outcomes, request_duration = self._series(visit.endpoint, visit.status, visit.outcome)
        requests.inc()
        outcomes.inc()
        request_duration.observe(visit.seconds)
        event = visit.event()
        if tracing is not None:
            event["trace_id"] = tracing.record(visit)
        logger.info("request", extra=event)

    def _find_series(self, endpoint: str, status: int, outcome: str) -> tuple[Counter, Counter, Histogram]:
        metrics = self._context.metrics
        return (
            metrics.requests.labels(endpoint, str(status)),
            metrics.outcomes.labels(outcome),
            metrics.request_duration.labels(endpoint),
        )


def _without_head(scope: Scope) -> Scope:
    """HEAD as GET, for every path; the server keeps the body of the answer back."""
    return {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
