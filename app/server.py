"""The process around the application: its socket, and an end that leaves nobody without an answer."""

import asyncio
import errno
import logging
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import cast

import uvicorn
from fastapi import FastAPI

from app.api.door import Door
from app.api.protocol import Protocol
from app.context import Context
from app.descriptors import claim_descriptors
from app.lifecycle import Phase
from app.settings import Settings
from app.telemetry import Metrics
from model.errors import ConfigError

logger = logging.getLogger(__name__)

# Load balancers look at /readyz about once a second: they must see the refusal before the socket closes.
_NOTICE_SECONDS = 1.0
# Longer than clients and load balancers keep an idle connection (5 to 60 s): whoever closes first must
# be the one who knows that no request is on its way.
_IDLE_SECONDS = 75
# Connections that the system takes in before we do.
_BACKLOG = 2048


class Server(uvicorn.Server):
    """uvicorn, ending in this order: not ready; refuse new work; answer what was accepted; close; status 0.

    Args:
        app: What `create_app` made.
        settings: Its settings.
    """

    def __init__(self, app: FastAPI, settings: Settings) -> None:
        super().__init__(_config(app, settings))
        self._context: Context = app.state.context
        self._drain_seconds = settings.drain_seconds
        self._drain_began: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        await super().startup(sockets)
        for listener in sockets or ():
            # uvicorn has just set it to how many connections are taken in at once.
            listener.listen(_BACKLOG)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Drain at SIGTERM and SIGINT; unlike uvicorn's own, the process then ends with status 0."""
        previous = {
            number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal begins to drain, the second ends at once."""
        if self._drain_began is not None:
            self.should_exit = self.force_exit = True
            return
        self._drain_began = time.monotonic()
        self._context.lifecycle.drain()

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop listening; uvicorn asks ten times a second."""
        return (
            await super().on_tick(counter) or self._context.lifecycle.phase is Phase.FAILED or self._drained()
        )

    def _drained(self) -> bool:
        if self._drain_began is None:
            return False
        elapsed = time.monotonic() - self._drain_began
        is_idle = self._context.lifecycle.in_flight == 0 and elapsed >= _NOTICE_SECONDS
        return is_idle or elapsed >= self._drain_seconds


def _config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    metrics: Metrics = app.state.context.metrics
    door = Door(room=claim_descriptors())
    protocol = partial(Protocol, door=door, count_refusal=metrics.refuse_on_the_wire)
    return uvicorn.Config(
        app,
        http=cast(type[asyncio.Protocol], protocol),
        # Under our protocol uvloop wins nothing, so nobody need wonder which of the two is running.
        loop="asyncio",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies or None,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=5,
        # asyncio takes in as many connections at once, and where no descriptor is left it tries as often in
        # vain, each time with a log line and a timer that tries again: more and more of them.
        backlog=1,
    )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        ConfigError: If the address is not one of this machine, or is in use.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    except OSError:
        raise ConfigError("host", "an address of this machine", host) from None
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        field, value = ("host", host) if error.errno == errno.EADDRNOTAVAIL else ("port", port)
        raise ConfigError(field, f"free to listen on ({os.strerror(error.errno or 0)})", value) from None
    # Else a body waits up to 40 ms for the client to acknowledge its head. Connections inherit this;
    # asyncio itself only asks for it where a socket names its protocol, which this one does not.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def serve(app: FastAPI, settings: Settings) -> None:
    """Serve until told to end; returns when everything accepted is answered.

    Raises:
        ConfigError: If the address cannot be listened on.
        Exception: Why the model could not be loaded.
    """
    server = Server(app, settings)
    with listen(settings.host, settings.port) as listener:
        host, port = listener.getsockname()[:2]
        logger.info("listening", extra={"url": f"http://{host}:{port}"})
        server.run(sockets=[listener])
    failure = app.state.context.lifecycle.failure
    if failure is not None:
        raise failure
