"""The application: its routes, and a lifespan that loads the engine and lets go of it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.routing import APIRoute

from app.backend import Backend
from app.http import errors, openapi, pages, routes
from app.http.deepl.routes import router as deepl_router
from app.http.middleware import CrossOriginMiddleware, RequestContextMiddleware
from app.http.openapi import ShortcutMiddleware
from app.lifecycle.active_models import ActiveModels, Load
from app.lifecycle.context import Context
from app.lifecycle.reloading import Reloader
from app.settings import Settings

logger = logging.getLogger(__name__)

_ROUTERS = (routes.router, deepl_router, routes.probes_router)
_ROUTES = [route for router in _ROUTERS for route in router.routes if isinstance(route, APIRoute)]


def create_app(
    settings: Settings | None = None, backend: Backend | None = None, *, load: Load | None = None
) -> FastAPI:
    """The whole service as an ASGI application; it serves while its lifespan runs.

    Args:
        settings: None reads them from the environment.
        backend: What decodes, from the beginning to the end; None loads it in the background, while
            the probes answer already, and again when that is asked for.
        load: How to load it; None is the checkpoints that the settings name.

    Raises:
        ConfigError: If the file of API keys cannot be used, or traces are wanted that nobody can write.
    """
    settings = settings or Settings()
    context = Context.of(settings)
    load = load or partial(_load_engine, settings)
    app = FastAPI(
        title="Dragoman",
        version=version("dragoman"),
        description="Translates text with models you own. Programs written for LibreTranslate or DeepL work "
        "unchanged.",
        lifespan=lambda _: _serving(context, backend, load),
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        # Our own metrics and log lines surround every request; FastAPI's would be looked for each time.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.context = context
    for router in _ROUTERS:
        app.include_router(router)
    pages.install(app)
    errors.install(app, context.metrics, _ROUTES)
    openapi.install(app)
    _add_middleware(app, context)
    return app


@asynccontextmanager
async def _serving(context: Context, backend: Backend | None, load: Load) -> AsyncIterator[None]:
    """Load, serve as long as the block lasts, and let go of everything, whatever fails on the way."""
    async with AsyncExitStack() as ending:
        if context.tracing is not None:
            ending.push_async_callback(asyncio.to_thread, context.tracing.close)
        running = ActiveModels(context, load if backend is None else lambda _: backend)
        ending.push_async_callback(running.stop)
        if backend is None:
            await ending.enter_async_context(_beside(Reloader(running, context).run()))
        else:
            await running.start()
        yield


def _load_engine(settings: Settings, lender: Backend | None) -> Backend:
    # The engine may bring torch, which nothing else in this package may load.
    from app.lifecycle.engine_backend import EngineBackend

    return EngineBackend.load(settings, lender if isinstance(lender, EngineBackend) else None)


@asynccontextmanager
async def _beside(work: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """Let work go on beside the block, and end with it; a fault of it is logged when it happens."""
    task = asyncio.create_task(work)
    task.add_done_callback(_log_fault)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def _log_fault(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (fault := task.exception()) is not None:
        logger.error("what goes on beside the requests has failed", exc_info=fault)


def _add_middleware(app: FastAPI, context: Context) -> None:
    """Innermost first: cross-origin access if it is allowed at all, then what surrounds every request."""
    app.add_middleware(ShortcutMiddleware, routes=_ROUTES)
    if context.settings.cors_origins:
        app.add_middleware(CrossOriginMiddleware, origins=context.settings.cors_origins)
    endpoints = ["/", "/docs", "/openapi.json", *(route.path for route in _ROUTES)]
    app.add_middleware(RequestContextMiddleware, context=context, endpoints=endpoints)
