"""The application: its routes, and a lifespan that loads the engine and lets go of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.routing import APIRoute

from app.api import documentation, errors, pages, probes, routes
from app.api.cors import CrossOriginMiddleware
from app.api.deepl.routes import router as deepl_router
from app.api.middleware import RequestContextMiddleware
from app.api.shortcut import ShortcutMiddleware
from app.backend import Backend
from app.context import Context
from app.running import Running
from app.settings import Settings

_ROUTERS = (routes.router, deepl_router, probes.router)


def create_app(settings: Settings | None = None, backend: Backend | None = None) -> FastAPI:
    """The whole service as an ASGI application; it serves while its lifespan runs.

    Args:
        settings: None reads them from the environment.
        backend: What decodes; None loads the checkpoints that the settings name, in the
            background, while the probes answer already.

    Raises:
        ConfigError: If the file of API keys cannot be used.
    """
    settings = settings or Settings()
    context = Context.of(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        running = Running(context)
        if backend is not None:
            await running.start(lambda: backend)
            loading = None
        else:
            loading = asyncio.create_task(running.start(lambda: _load_engine(settings)))
        yield
        if loading is not None:
            await loading
        await running.stop()

    app = FastAPI(
        title="Dragoman",
        version=version("dragoman"),
        description="Translates text with models you own. LibreTranslate's clients work unchanged.",
        lifespan=lifespan,
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
    errors.install(app, context.metrics)
    documentation.install(app)
    _add_middleware(app, context)
    return app


def _load_engine(settings: Settings) -> Backend:
    # The engine may bring torch, which nothing else in this package may load.
    from app.engine_backend import EngineBackend

    return EngineBackend.load(settings)


def _add_middleware(app: FastAPI, context: Context) -> None:
    """Innermost first: cross-origin access if it is allowed at all, then what surrounds every request."""
    ours = [route for router in _ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    app.add_middleware(ShortcutMiddleware, routes=ours)
    if context.settings.cors_origins:
        app.add_middleware(CrossOriginMiddleware, origins=context.settings.cors_origins)
    endpoints = ["/", "/docs", "/openapi.json", *(route.path for route in ours)]
    app.add_middleware(RequestContextMiddleware, context=context, endpoints=endpoints)
