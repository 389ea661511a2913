"""A front: takes requests like any service process, and has replicas answer them.

A translation depends on its request alone. A request whose replica ends is therefore sent to another one.
Only an answer that has begun cannot be repeated: a stream of events then ends with an error event, and any
other answer with its connection.
"""

import asyncio
import json
import random
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from socket import gethostname
from typing import Final

from fastapi import FastAPI
from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from app.background import in_background
from app.cluster.messages import Cluster, ReplicaLostError, portable_scope
from app.errors import NotReadyError
from app.http import errors
from app.http.body import read_bytes
from app.http.receiving import context_of
from app.http.routes import PROBES
from app.http.streaming import EVENT_STREAM, error_event, while_connected
from app.lifecycle.context import Context
from app.lifecycle.phase import Lifecycle
from app.main import Application, middleware
from app.settings import Settings

FILE_PATHS: Final = ("/translate_file", "/download_file", "/v2/document")
"""Paths with state that one replica has: translated files, and the jobs that translate them."""
# Header fields that the front's own middleware sets.
_OWN_FIELDS: Final = (b"x-request-id", b"x-content-type-options", b"connection")
_FIRST_WAIT_SECONDS: Final = 0.05
_LONGEST_WAIT_SECONDS: Final = 2.0


class Front:
    """The innermost ASGI application of a front.

    Args:
        settings: Limits and deadlines.

    Attributes:
        cluster: The replicas; None before the front has joined them.
    """

    def __init__(self, settings: Settings) -> None:
        self.cluster: Cluster | None = None
        self._settings = settings
        self._places_models = bool(settings.max_model_bytes or settings.model_idle_seconds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive, send)
        answer = _RelayedAnswer(send)
        try:
            if self.cluster is None:
                raise NotReadyError
            body = await self._read(request)
            await while_connected(request, self._forward(self.cluster, request, body, answer))
        except Exception as error:
            if answer.is_complete:
                return
            if not answer.has_begun:
                await errors.error_response(error, request)(scope, receive, send)
            elif answer.is_stream:
                await answer.end_with(error_event(error, request))
            else:
                raise

    async def metrics(self, request: Request) -> Response:
        """Returns the metrics of the front and of every replica."""
        expositions = {f"front-{gethostname()}": context_of(request).metrics.exposition().decode()}
        if self.cluster is not None:
            expositions |= await self.cluster.expositions()
        content = await in_background(partial(_combined, expositions))
        return Response(content, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _read(self, request: Request) -> bytes:
        is_file = request.url.path.startswith(FILE_PATHS)
        limit = "max_file_bytes" if is_file else "max_body_bytes"
        return bytes(await read_bytes(request, getattr(self._settings, limit), limit.upper()))

    async def _forward(
        self, cluster: Cluster, request: Request, body: bytes, answer: "_RelayedAnswer"
    ) -> None:
        """Send a request to replicas until one has answered it.

        Raises:
            NotReadyError: If none has answered within REQUEST_TIMEOUT_MS.
        """
        began, wait = time.monotonic(), _FIRST_WAIT_SECONDS
        is_file = request.url.path.startswith(FILE_PATHS)
        replicas = cluster.files if is_file else cluster.translation
        model_key = _model_key(body) if self._places_models and not is_file else ""
        while True:
            waited = time.monotonic() - began
            scope = portable_scope(request.scope, request.state.request_id, waited)
            try:
                async with aclosing(replicas.respond(scope, body, model_key)) as messages:
                    await answer.relay(messages)
                return
            except ReplicaLostError:
                if answer.has_begun or waited * 1000 > self._settings.request_timeout_ms:
                    raise NotReadyError from None
            await asyncio.sleep(wait * (0.5 + random.random() / 2))  # noqa: S311
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)


class _RelayedAnswer:
    """The answer to a client; its head is sent with the first part of its body.

    Attributes:
        has_begun: Whether a part was sent, so that the request cannot be repeated.
        is_stream: Whether it is a stream of events.
        is_complete: Whether all of it was sent; the connection then says that the client has left.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False
        self.is_stream = False
        self.is_complete = False

    async def relay(self, messages: AsyncIterator[Message]) -> None:
        """Send all messages of a replica."""
        head: Message | None = None
        async for message in messages:
            if message["type"] == "http.response.start":
                head = message
                continue
            if head is not None:
                head["headers"] = [field for field in head["headers"] if field[0] not in _OWN_FIELDS]
                self.is_stream = any(value.startswith(EVENT_STREAM.encode()) for _, value in head["headers"])
                self.has_begun = True
                await self._send(head)
                head = None
            self.is_complete = not message.get("more_body", False)
            await self._send(message)

    async def end_with(self, event: bytes) -> None:
        """Send the last event of a stream."""
        await self._send({"type": "http.response.body", "body": event, "more_body": False})


def _model_key(body: bytes) -> str:
    """Returns the model and languages that a request names, joined; empty if it names none."""
    try:
        fields = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(fields, dict):
        return ""
    names = [fields.get("model"), fields.get("source"), fields.get("target", fields.get("target_lang"))]
    return "-".join(name.lower() for name in names if isinstance(name, str))


def create_front(settings: Settings, connect: Callable[[], Cluster]) -> FastAPI:
    """Returns the ASGI application of a front; it becomes ready when it has joined the cluster.

    Args:
        settings: Limits of requests, of bytes and of time; the models are the replicas' matter.
        connect: Joins the cluster; blocks.
    """
    context, front = Context(settings), Front(settings)
    context.metrics.expect_rejections(errors.REFUSALS)
    app = Application(
        routes=[*(route for route in PROBES if route.path != "/metrics"), Route("/metrics", front.metrics)],
        middleware=list(middleware(context)),
        lifespan=lambda _: _connected(front, context.lifecycle, connect),
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.state.context = context
    app.router.default = front
    return app


@asynccontextmanager
async def _connected(
    front: Front, lifecycle: Lifecycle, connect: Callable[[], Cluster]
) -> AsyncIterator[None]:
    """Join the cluster in the background, while the probes already answer; without it, end the process."""

    def serve(joined: asyncio.Future[Cluster]) -> None:
        if joined.cancelled():
            return
        if isinstance(failure := joined.exception(), Exception):
            lifecycle.fail(failure)
            return
        # Ray has put handlers of its own, which print stacks, in front of ours.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.getsignal(number))
        front.cluster = joined.result()
        lifecycle.become_ready()

    joined = in_background(connect)
    joined.add_done_callback(serve)
    try:
        yield
    finally:
        if front.cluster is not None:
            await in_background(front.cluster.leave)


def _combined(expositions: Mapping[str, str]) -> bytes:
    """Returns one exposition of several, whose samples have the label `replica`.

    Args:
        expositions: Each in Prometheus' text format, by the name of the replica.
    """
    families: dict[str, Metric] = {}
    for replica, text in expositions.items():
        for family in text_string_to_metric_families(text):
            known = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            known.samples += [
                sample._replace(labels={**sample.labels, "replica": replica}) for sample in family.samples
            ]
    return generate_latest(_Families(list(families.values())))


class _Families(Collector):
    """Metrics that are complete already."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Returns the metrics."""
        return self._families
