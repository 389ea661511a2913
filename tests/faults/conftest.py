"""Applications in memory, as in tests/app; processes are started by each test."""

from tests.app.conftest import anyio_backend, backend, lines, serve, uncollected

__all__ = ["anyio_backend", "backend", "lines", "serve", "uncollected"]
