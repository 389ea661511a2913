"""The listening socket, and the file descriptors that its connections need."""

import asyncio
import ctypes
import errno
import math
import os
import resource
import select
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from app.lifecycle.processes import ServiceProcess
from model.errors import ConfigError

# New connections that the system queues.
_BACKLOG: Final = 2048
# Iterations of the event loop after which asyncio has set up a connection that it accepted.
_SETTLING_ITERATIONS: Final = 4
# How long descriptors count as scarce after one was lacking, and the time between two connections meanwhile:
# closing a connection takes some iterations of the event loop, and the few descriptors must last that long.
_SCARCE_SECONDS: Final = 10.0
_INTERVAL_SECONDS: Final = 0.002
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

# Of Linux; Python has no name for it.
_SO_ATTACH_FILTER: Final = 26
# A packet filter (BPF): load the byte of TCP's flags; if SYN is set, drop the packet, otherwise pass it.
_NO_SYN: Final = b"".join(
    struct.pack("=HBBI", *instruction)
    for instruction in ((0x30, 0, 0, 13), (0x45, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))
)

# Enough for all clients of one process, and few enough for code that loops over all descriptors.
_MAX_DESCRIPTORS: Final = 65_536
# For the listening socket, logs, checkpoints that are reloaded, and devices.
_RESERVED_DESCRIPTORS: Final = 128


class Listener(socket.socket):
    """Accepts connections one at a time while file descriptors are scarce.

    Without a descriptor, asyncio would fail to accept many times in each iteration of its loop, each time
    with a log line and another timer that tries again. The descriptors that come back would all go to clients
    that have left by then.
    """

    _scarce_until = -math.inf
    _not_before = -math.inf
    _process: ServiceProcess | None = None

    def share(self, process: ServiceProcess) -> None:
        """Accept connections in this process only when it has no more of them than the other processes."""
        self._process = process
        process.listen()

    def accept(self) -> "tuple[socket.socket, Any]":
        """Accept the next connection.

        Raises:
            BlockingIOError: If there is none, or it has to wait.
            OSError: If the system has no descriptor for it.
        """
        now = time.monotonic()
        if now < self._not_before or not (self._process is None or self._process.may_accept()):
            raise BlockingIOError
        try:
            accepted = super().accept()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                self._scarce_until = now + _SCARCE_SECONDS
                self._not_before = now + _INTERVAL_SECONDS
            raise
        if now < self._scarce_until:
            self._not_before = now + _INTERVAL_SECONDS
        if self._process is not None:
            self._process.open_connection()
        return accepted


def listen(host: str, port: int) -> Listener:
    """Returns a listening socket.

    Raises:
        ConfigError: If the address is not one of this machine, or is in use.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    except (OSError, UnicodeError):
        raise ConfigError("host", "an address of this machine", host) from None
    try:
        plain = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        field, value = ("host", host) if error.errno == errno.EADDRNOTAVAIL else ("port", port)
        raise ConfigError(field, f"free to listen on ({os.strerror(error.errno or 0)})", value) from None
    listener = Listener(family, socket.SOCK_STREAM, fileno=plain.detach())
    # Otherwise a body waits up to 40 ms until the client acknowledges its head. Connections inherit the
    # option; asyncio sets it only for sockets that name their protocol, which this one does not.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def url_of(listener: socket.socket) -> str:
    """Returns the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    place = f"[{host}]" if ":" in host else host
    return f"http://{place}:{port}"


def lengthen_queue(listener: socket.socket) -> None:
    """Let many clients connect at once; asyncio has set the queue to what it accepts in one iteration."""
    listener.listen(_BACKLOG)


async def accept_queued(listeners: Sequence[socket.socket], seconds: float) -> bool:
    """Let no more connections begin, and empty the queues of new ones: closing would reset those.

    The caller closes the listeners at once, before the event loop goes on. Clients that try to connect in the
    meantime try again after a second, and are refused then.

    Args:
        listeners: Listening sockets that connections are accepted from.
        seconds: The longest wait.

    Returns:
        Whether all queued connections were accepted and set up.
    """
    for listener in listeners:
        listener.listen(0)
        _drop_new_connections(listener)
    until = time.monotonic() + seconds
    num_quiet = 0
    while num_quiet < _SETTLING_ITERATIONS:
        if time.monotonic() > until:
            return False
        num_quiet = 0 if select.select(listeners, (), (), 0)[0] else num_quiet + 1
        await asyncio.sleep(0)
    return True


def _drop_new_connections(listener: socket.socket) -> None:
    """Drop packets that begin a connection. Where the system cannot, some may still connect and be reset."""
    program = ctypes.create_string_buffer(_NO_SYN, len(_NO_SYN))
    with suppress(OSError):
        listener.setsockopt(
            socket.SOL_SOCKET,
            _SO_ATTACH_FILTER,
            struct.pack("HP", len(_NO_SYN) // 8, ctypes.addressof(program)),
        )


def claim_descriptors() -> int:
    """Raise the limit of this process on file descriptors as far as the system permits.

    Returns:
        Connections that the limit still allows.
    """
    soft, hard = (_MAX_DESCRIPTORS if limit == resource.RLIM_INFINITY else limit for limit in _limits())
    granted = max(soft, min(hard, _MAX_DESCRIPTORS))
    if granted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (granted, _limits()[1]))
    return granted - min(_RESERVED_DESCRIPTORS, granted // 2)


def _limits() -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_NOFILE)
