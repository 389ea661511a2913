"""⑨ Work for a connected client, and its answer as JSON or as Server-Sent Events.

https://html.spec.whatwg.org/multipage/server-sent-events.html:

    event: partial    {"index": 0, "translatedText": "Où est"}: the certain beginning of a text, when it grows
    event: done       the answer that the same request gets without streaming; the last event
    event: error      the body of an error after the first event; the last event
    : …               a comment after 15 s of silence, so that proxies keep the connection

An error before the first of these is an ordinary answer with its status.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from functools import lru_cache
from typing import Final, TypeVar, cast

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from app.errors import ClientGoneError
from app.http.body import JSON, header_of, preferences
from app.http.errors import error_response
from app.translation.partial_results import PartialResults
from app.translation.requests import Answer

EVENT_STREAM: Final = "text/event-stream"
ABANDON: Final = "abandon"
"""Key in `scope["state"]`, while a request is worked on: the function that cancels the work."""
_HEADERS: Final = {
    "Cache-Control": "no-store",
    # Otherwise nginx collects events until its buffer is full.
    "X-Accel-Buffering": "no",
}
_HEARTBEAT: Final = b": still translating\n\n"
_HEARTBEAT_SECONDS: Final = 15.0
# People see no difference below this interval, and a long text is not sent again for every token.
_INTERVAL_SECONDS: Final = 0.04

Events = AsyncGenerator[bytes, None]
Translate = Callable[[PartialResults | None], Coroutine[object, object, Sequence[Answer]]]
Render = Callable[[Sequence[Answer]], Response]

Result = TypeVar("Result")


async def answer(request: Request, translate: Translate, render: Render) -> Response:
    """Answer a request as its client prefers: as JSON when all is done, or as Server-Sent Events.

    Args:
        request: Its body has been read.
        translate: Does the work, and keeps partial results up to date if it gets some.
        render: Makes the JSON answer of what `translate` returned.

    Raises:
        ClientGoneError: If the client left before the answer began.
        Exception: Whatever `translate` raised before the answer began.
    """
    if prefers_events(header_of(request.scope, b"accept")):
        return await _stream(request, translate, render)
    return render(await while_connected(request, translate(None)))


async def while_connected(request: Request, work: Coroutine[object, object, Result]) -> Result:
    """Do work for a client, and cancel it as soon as the client has left.

    Args:
        request: Its body has been read.
        work: The work.

    Raises:
        ClientGoneError: If the client left first.
    """
    task = cast(asyncio.Task[object], asyncio.current_task())
    state = request.scope["state"]
    state[ABANDON] = task.cancel
    try:
        return await work
    except asyncio.CancelledError:
        # The connection takes `abandon` out before it calls it. Others may have cancelled the task as well.
        if ABANDON not in state and task.cancelling() == 1:
            task.uncancel()
            raise ClientGoneError from None
        raise
    finally:
        state.pop(ABANDON, None)


@lru_cache(maxsize=64)
def prefers_events(accept: str) -> bool:
    """Returns whether an `Accept` header prefers Server-Sent Events to JSON."""
    known = (kind for kind in preferences(accept) if kind in (EVENT_STREAM, JSON, "application/*", "*/*"))
    return next(known, JSON) == EVENT_STREAM


async def _stream(request: Request, translate: Translate, render: Render) -> StreamingResponse:
    """Returns the answer when it begins, with an event or a comment; the rest follows as it grows."""
    events = _events(request, translate, render)
    try:
        first = await while_connected(request, anext(events))
    except BaseException:
        await events.aclose()
        raise
    return _EventResponse(first, events)


class _EventResponse(StreamingResponse):
    """A stream of events that ends the work when the client leaves.

    Args:
        first: The first event.
        events: The events that follow.
    """

    def __init__(self, first: bytes, events: Events) -> None:
        super().__init__(_chain(first, events), media_type=EVENT_STREAM, headers=_HEADERS)
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all events."""
        async with aclosing(self._events):
            await super().__call__(scope, receive, send)


async def _chain(first: bytes, events: Events) -> Events:
    yield first
    async for event in events:
        yield event


async def _events(request: Request, translate: Translate, render: Render) -> Events:
    """Yields all events of one request; closing the generator ends the work."""
    partials = PartialResults()
    work = asyncio.create_task(_answer(partials, translate, render))
    work.add_done_callback(lambda _: partials.changed.set())
    has_begun = False
    try:
        while not work.done():
            event = await _next_event(partials)
            if event and not work.done():
                has_begun = True
                yield event
                await asyncio.wait((work,), timeout=_INTERVAL_SECONDS)
        yield _last_event(request, work, has_begun)
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def _answer(partials: PartialResults, translate: Translate, render: Render) -> bytes:
    return bytes(render(await translate(partials)).body)


async def _next_event(partials: PartialResults) -> bytes:
    """Returns the texts that have grown, as soon as one may have; possibly none."""
    try:
        async with asyncio.timeout(_HEARTBEAT_SECONDS):
            await partials.changed.wait()
    except TimeoutError:
        return _HEARTBEAT
    partials.changed.clear()
    return b"".join(_event("partial", _partial(index, text)) for index, text in partials.take())


def _last_event(request: Request, work: asyncio.Task[bytes], has_begun: bool) -> bytes:
    error = work.exception()
    if error is None:
        return _event("done", work.result())
    if has_begun and isinstance(error, Exception):
        return error_event(error, request)
    raise error


def error_event(error: Exception, request: Request) -> bytes:
    """Returns the last event of a stream that cannot be completed."""
    return _event("error", bytes(error_response(error, request).body))


def _partial(index: int, text: str) -> bytes:
    fields = {"index": index, "translatedText": text}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def _event(name: str, data: bytes) -> bytes:
    # JSON has no bare line break, so one `data` line is enough.
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)
