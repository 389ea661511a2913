"""① The way past FastAPI for routes that need nothing of it: they take the request and give the answer.

Dependencies, exit stacks and the walk through all routes cost more than everything else that HTTP
costs a short text. FastAPI still documents these routes, and answers what does not match exactly.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable

from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.errors import respond

Endpoint = Callable[[Request], Awaitable[Response]]


class ShortcutMiddleware:
    """Calls an endpoint at once where that is all its route would do.

    Args:
        app: What answers everything else.
        routes: Those with the signature of an Endpoint are called.
    """

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute]) -> None:
        self._app = app
        self._endpoints: dict[tuple[str, str], Endpoint] = {
            (method, route.path): route.endpoint
            for route in routes
            if isinstance(route, APIRoute) and _takes_only_the_request(route.endpoint)
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, refusals included: what is around has its own to add to every answer."""
        endpoint = self._endpoints.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if endpoint is None:
            await self._app(scope, receive, send)
        else:
            response = await _answer(endpoint, Request(scope, receive, send))
            await response(scope, receive, send)


async def _answer(endpoint: Endpoint, request: Request) -> Response:
    try:
        return await endpoint(request)
    except Exception as fault:
        return respond(fault, request)


def _takes_only_the_request(endpoint: Callable[..., object]) -> bool:
    signature = inspect.signature(endpoint)
    takes = [parameter.annotation for parameter in signature.parameters.values()]
    gives = signature.return_annotation
    return inspect.iscoroutinefunction(endpoint) and takes == [Request] and gives is Response
