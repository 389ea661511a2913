"""The process around the application: its socket, and an end that leaves nobody without an answer."""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import cast

import uvicorn
from starlette.applications import Starlette

from app.connection.limits import Door
from app.connection.listening import claim_descriptors, listen, take_in_last, widen
from app.connection.protocol import Protocol
from app.lifecycle.context import Context
from app.lifecycle.phase import Phase
from app.lifecycle.shutdown import Shutdown
from app.settings import Settings

logger = logging.getLogger(__name__)

# Longer than clients and load balancers keep an idle connection (5 to 60 s): whoever closes first must
# be the one who knows that no request is on its way.
_IDLE_SECONDS = 75
# How long a thread may keep Python's lock from another: the engines ask for it between their turns, the event
# loop after each of its waits. With the usual 5 ms a request on a busy service takes half as long again.
_SWITCH_SECONDS = 0.0005
# How long connections that are open at the end may take to hear their answers.
_GRACE_SECONDS = 5
_URGENT_SECONDS = 1
# Who connected a moment before we stopped listening has sent its request within this.
_LATE_SECONDS = 0.2
# Few, as each takes about a tenth of a millisecond.
_CONNECTIONS_A_TURN = 16
# How long accepting those who have connected may take.
_QUEUE_SECONDS = 1.0


class Server(uvicorn.Server):
    """uvicorn, ending in this order: not ready; refuse new work; answer what was accepted; close; status 0.

    Args:
        app: What `create_app` made.
        settings: Its settings.
    """

    def __init__(self, app: Starlette, settings: Settings) -> None:
        super().__init__(_config(app, settings))
        self._context: Context = app.state.context
        self._shutdown = Shutdown(self._context.lifecycle, settings.drain_seconds)
        self._is_reload_due = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        await super().startup(sockets)
        for listener in sockets or ():
            widen(listener)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close; who connected just before is still told that we are leaving."""
        if not await take_in_last(sockets or (), _QUEUE_SECONDS):
            logger.warning("some connections were not accepted in time")
        for server in self.servers:
            server.close()
        await asyncio.sleep(_LATE_SECONDS)
        if self._shutdown.is_urgent:
            self.config.timeout_graceful_shutdown = _URGENT_SECONDS
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing: `heeding_signals` has begun before, and goes on afterwards."""
        yield

    @contextmanager
    def heeding_signals(self) -> Iterator[None]:
        """Drain at SIGTERM and SIGINT, reload at SIGHUP; the process then ends with status 0."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.handle_exit)
        had_terminal = _has_terminal()
        signal.signal(signal.SIGHUP, lambda *_: self._hang_up(had_terminal))
        try:
            yield
        finally:
            # Everybody has been answered: one more signal must not spoil the status.
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """See Shutdown."""
        if self._shutdown.request():
            self.should_exit = self.force_exit = True

    def _hang_up(self, had_terminal: bool) -> None:
        """Reload; but a terminal that was closed takes along what was started in it, as ever."""
        if had_terminal and not _has_terminal():
            self._shutdown.request()
        else:
            self._is_reload_due = True

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop listening; uvicorn asks ten times a second."""
        if self._is_reload_due:
            self._is_reload_due = False
            self._context.lifecycle.reload_requested.set()
        is_over = self._context.lifecycle.phase is Phase.FAILED or self._shutdown.is_over()
        return await super().on_tick(counter) or is_over


def _has_terminal() -> bool:
    """Whether any of input, output and errors is one; not any more once it has been closed."""
    return any(map(os.isatty, range(3)))


def _config(app: Starlette, settings: Settings) -> uvicorn.Config:
    context: Context = app.state.context
    door = Door(room=claim_descriptors())
    protocol = partial(
        Protocol,
        door=door,
        admission=context.header_admission(),
        count_refusal=context.metrics.count_early_rejection,
    )
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
        timeout_graceful_shutdown=_GRACE_SECONDS,
        # asyncio takes in as many in one turn of its loop.
        backlog=_CONNECTIONS_A_TURN,
    )


def serve(app: Starlette, settings: Settings) -> None:
    """Serve until told to end; returns when everything accepted is answered.

    Raises:
        ConfigError: If the address cannot be listened on.
        Exception: Why the model could not be loaded.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    server = Server(app, settings)
    with server.heeding_signals(), listen(settings.host, settings.port) as listener:
        host, port = listener.getsockname()[:2]
        place = f"[{host}]" if ":" in host else host
        logger.info("listening", extra={"url": f"http://{place}:{port}"})
        server.run(sockets=[listener])
    logger.info("ended", extra=app.state.context.metrics.request_totals())
    failure = app.state.context.lifecycle.failure
    if failure is not None:
        raise failure
