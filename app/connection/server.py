"""The server process: its socket and signals, and a shutdown that answers every accepted request."""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import cast

import uvicorn
from fastapi import FastAPI

from app.connection.limits import ConnectionLimit
from app.connection.listening import (
    Listener,
    accept_queued,
    claim_descriptors,
    lengthen_queue,
    listen,
    url_of,
)
from app.connection.protocol import Protocol
from app.lifecycle.context import Context
from app.lifecycle.phase import Phase, Shutdown, has_terminal
from app.lifecycle.processes import ServiceProcess
from app.settings import Settings

logger = logging.getLogger(__name__)

# Longer than clients and load balancers keep an idle connection (5 to 60 s): the side that closes should be
# the one that knows that no request is on its way.
_IDLE_SECONDS = 75
# How long a thread may keep Python's lock. The engines ask for it between their steps, and the event loop
# after each wait; with the usual 5 ms a request to a busy service takes half as long again.
_SWITCH_SECONDS = 0.0005
# How long connections that are open at the end may take to read their answers.
_GRACE_SECONDS = 5
_URGENT_SECONDS = 1
# Clients that connected just before the listener closed have sent their request within this time.
_LATE_SECONDS = 0.5
# Accepting a connection takes about a tenth of a millisecond.
_ACCEPTED_PER_ITERATION = 16
# Longest time for accepting the connections that are queued at the end.
_QUEUE_SECONDS = 1.0


class Server(uvicorn.Server):
    """uvicorn's server; to shut down, it refuses new work, answers accepted requests, and then closes.

    Args:
        app: The application that `create_app` returned.
        settings: The settings of the application.
    """

    def __init__(self, app: FastAPI, settings: Settings) -> None:
        self._context: Context = app.state.context
        self._process = self._context.process
        on_closed = (lambda: None) if self._process is None else self._process.close_connection
        self._limit = ConnectionLimit(claim_descriptors(), on_closed)
        super().__init__(_config(app, settings, self._limit))
        self._shutdown = Shutdown(self._context.lifecycle, settings.drain_seconds)
        self._is_reload_due = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        await super().startup(sockets)
        for listener in sockets or ():
            lengthen_queue(listener)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close; clients that connected just before are still told that the service shuts down."""
        is_last = self._process is None or self._process.stop_listening()
        if is_last and not await accept_queued(sockets or [], _QUEUE_SECONDS):
            logger.warning("some connections were not accepted in time")
        for server in self.servers:
            server.close()
        await asyncio.sleep(_LATE_SECONDS)
        if self._shutdown.is_urgent:
            self.config.timeout_graceful_shutdown = _URGENT_SECONDS
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: `handling_signals` has begun before, and ends later."""
        yield

    @contextmanager
    def handling_signals(self) -> Iterator[None]:
        """Drain at SIGTERM and SIGINT, reload at SIGHUP; the process then ends with status 0."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.handle_exit)
        had_terminal = has_terminal()
        signal.signal(signal.SIGHUP, lambda *_: self._hang_up(had_terminal))
        # A supervisor has blocked them, so that none is lost while the process starts.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        try:
            yield
        finally:
            # All requests have been answered: one more signal must not change the exit status.
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down; see `Shutdown`."""
        if self._process is not None:
            self._process.leave()
        self._shutdown.request()

    def _hang_up(self, had_terminal: bool) -> None:
        """Reload the checkpoints; if the terminal of the process was closed, shut down instead."""
        if had_terminal and not has_terminal():
            self._shutdown.request()
        else:
            self._is_reload_due = True

    async def on_tick(self, counter: int) -> bool:
        """Returns whether to stop listening; uvicorn asks ten times a second."""
        if self._is_reload_due:
            self._is_reload_due = False
            self._context.request_reload()
        self._limit.close_idle(_IDLE_SECONDS)
        if self._process is not None:
            self._beat(self._process)
        is_over = self._context.lifecycle.phase is Phase.FAILED or self._shutdown.is_over()
        return await super().on_tick(counter) or is_over

    def _beat(self, process: ServiceProcess) -> None:
        """Show the other processes the state of this one, and join a reload that the supervisor has begun."""
        lifecycle = self._context.lifecycle
        process.beat(
            is_leaving=lifecycle.phase is Phase.DRAINING,
            is_stuck=not self._context.watchdog.is_healthy,
        )
        self._context.metrics.publish()
        if lifecycle.phase is Phase.READY and process.begin_round():
            lifecycle.reload_requested.set()
        if process.is_orphan and lifecycle.phase is not Phase.DRAINING:
            logger.error("the supervisor has ended; the process ends too")
            self._shutdown.request()


def _config(app: FastAPI, settings: Settings, limit: ConnectionLimit) -> uvicorn.Config:
    context: Context = app.state.context
    protocol = partial(
        Protocol,
        limit=limit,
        admission=context.header_admission(),
        count_rejection=context.metrics.count_early_rejection,
    )
    return uvicorn.Config(
        app,
        http=cast(type[asyncio.Protocol], protocol),
        # With this protocol uvloop is not faster.
        loop="asyncio",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies or None,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        # asyncio accepts as many connections in one iteration of its loop.
        backlog=_ACCEPTED_PER_ITERATION,
    )


def serve(app: FastAPI, settings: Settings, listener: Listener | None = None) -> None:
    """Serve until a signal ends the process; returns when every accepted request is answered.

    Args:
        app: The application that `create_app` returned.
        settings: The settings of the application.
        listener: Accepts connections for several processes, this one among them; None opens one.

    Raises:
        ConfigError: If the process cannot listen on the address.
        Exception: The reason why the checkpoints could not be loaded.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    server = Server(app, settings)
    with server.handling_signals(), _listening(settings, listener) as own:
        process = app.state.context.process
        if process is not None:
            own.share(process)
        server.run(sockets=[own])
    logger.info("ended", extra=app.state.context.metrics.request_totals())
    failure = app.state.context.lifecycle.failure
    if failure is not None:
        raise failure


def _listening(settings: Settings, listener: Listener | None) -> Listener:
    if listener is None:
        listener = listen(settings.host, settings.port)
        logger.info("listening", extra={"url": url_of(listener)})
    return listener
