"""The application: its routes and middleware, and a lifespan that loads and closes the engines."""

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from app.backend import Backend
from app.http import errors, libretranslate, routes
from app.http.deepl import glossaries
from app.http.deepl import routes as deepl_routes
from app.http.middleware import CrossOriginMiddleware, RequestContextMiddleware
from app.http.openapi import Operation, document
from app.lifecycle.active_models import ActiveModels, Connect
from app.lifecycle.context import Context
from app.lifecycle.processes import ServiceProcess
from app.settings import Settings

# A collection of garbage stops all threads while it looks at objects, of which requests in progress hold some
# ten thousand. The next generation is collected after three young collections, before it is large.
_YOUNG_OBJECTS: Final = 10_000
_YOUNG_COLLECTIONS: Final = 2

_OPERATIONS = (
    *routes.OPERATIONS,
    *libretranslate.OPERATIONS,
    *deepl_routes.OPERATIONS,
    *glossaries.OPERATIONS,
    *routes.PROBES,
)


class Application(FastAPI):
    """FastAPI over Starlette's routes: our stricter parser reads the bodies, so FastAPI needs no models."""

    def openapi(self) -> dict[str, Any]:
        """Returns the document of `/openapi.json`, made once."""
        if self.openapi_schema is None:
            self.openapi_schema = document(_OPERATIONS)
        return self.openapi_schema

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan."""
        scope["app"] = self
        if self.middleware_stack is None:
            self.middleware_stack = self.build_middleware_stack()
        await self.middleware_stack(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """Returns the routes within our middleware alone: operations answer their own errors."""
        operations = [route for route in self.routes if isinstance(route, Operation)]
        counts = Counter(each.path for each in operations)
        # An operation that is alone on its path needs no router, which would try the pattern of each route.
        alone: dict[str, ASGIApp] = {each.path: each.handle for each in operations if counts[each.path] == 1}

        def by_path(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
            return alone.get(scope.get("path", ""), self.router)(scope, receive, send)

        app: ASGIApp = by_path
        for middleware, arguments, options in reversed(self.user_middleware):
            app = middleware(app, *arguments, **options)
        return app


def create_app(
    settings: Settings | None = None,
    backend: Backend | None = None,
    *,
    connect: Connect | None = None,
    process: ServiceProcess | None = None,
) -> FastAPI:
    """Returns the whole service as an ASGI application; it serves while its lifespan runs.

    Args:
        settings: None reads them from the environment.
        backend: Its models are loaded before the lifespan begins to serve, and are never reloaded; None has
            `connect` make one while the probes already answer, and reloads its models whenever that is due.
        connect: Makes the backend; None takes the checkpoints that the settings name.
        process: This process among several of one service; None if it is the only one.

    Raises:
        ConfigError: If the file of API keys cannot be used, or traces are on without the extra `otel`.
    """
    settings = settings or Settings()
    context = Context(settings, process)
    connect = connect or partial(_engine_backend, settings, process)
    context.metrics.expect_rejections(errors.REFUSALS)
    app = Application(
        routes=[*_OPERATIONS, *routes.PAGES],
        middleware=list(middleware(context)),
        lifespan=lambda _: _serving(context, backend, connect),
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    app.router.default = errors.not_found
    app.state.context = context
    return app


@asynccontextmanager
async def _serving(context: Context, backend: Backend | None, connect: Connect) -> AsyncIterator[None]:
    """Load the models, serve as long as the block lasts, and close everything, even after a failure."""
    gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_COLLECTIONS)
    async with AsyncExitStack() as ending:
        if context.tracing is not None:
            ending.push_async_callback(asyncio.to_thread, context.tracing.close)
        ending.callback(context.files.close)
        ending.callback(context.file_jobs.close)
        models = ActiveModels(context, connect if backend is None else lambda: backend)
        ending.push_async_callback(models.stop)
        if backend is None:
            models.run()
        else:
            await models.start()
        yield


def _engine_backend(settings: Settings, process: ServiceProcess | None) -> Backend:
    # The engine may import torch, which no other module of this package may.
    from app.lifecycle.engine_backend import EngineBackend

    return EngineBackend(settings, None if process is None else process.shared_weights)


def middleware(context: Context) -> Iterator[Middleware]:
    """Returns what surrounds every request, outermost first."""
    endpoints = ["/", "/docs", "/openapi.json", *(operation.path for operation in _OPERATIONS)]
    yield Middleware(RequestContextMiddleware, context=context, endpoints=endpoints)
    if context.settings.cors_origins:
        yield Middleware(CrossOriginMiddleware, origins=context.settings.cors_origins)
