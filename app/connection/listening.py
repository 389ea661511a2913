"""The listening socket, and the file descriptors that its connections need."""

import asyncio
import errno
import math
import os
import resource
import select
import socket
import time
from collections.abc import Sequence
from typing import Any, Final

from model.errors import ConfigError

# Connections that the system takes in before we do.
_BACKLOG: Final = 2048
_TURNS_SECONDS: Final = 0.05
# How long descriptors count as short after one was lacking, and how far apart connections then come: closing
# one takes some turns of the event loop, and as few as there are must not all be on their way through them.
_SHORT_SECONDS: Final = 10.0
_APART_SECONDS: Final = 0.005
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Listener(socket.socket):
    """Gives one connection at a time while descriptors are short, else as many as asked for.

    Where none is left, asyncio would try as often in vain in each turn, each time with a log line and a timer
    that tries again: more and more of them. And those that come back would all go to clients who have left.
    """

    _short_until = -math.inf
    _not_before = -math.inf

    def accept(self) -> "tuple[socket.socket, Any]":
        """The next connection.

        Raises:
            BlockingIOError: If there is none, or none yet.
            OSError: If the system has no descriptor for it.
        """
        now = time.monotonic()
        if now < self._not_before:
            raise BlockingIOError
        try:
            accepted = super().accept()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                self._short_until = now + _SHORT_SECONDS
                self._not_before = now + _APART_SECONDS
            raise
        if now < self._short_until:
            self._not_before = now + _APART_SECONDS
        return accepted


def listen(host: str, port: int) -> socket.socket:
    """A listening socket.

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
    # Else a body waits up to 40 ms for the client to acknowledge its head. Connections inherit this;
    # asyncio itself only asks for it where a socket names its protocol, which this one does not.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def widen(listener: socket.socket) -> None:
    """Let many connect at once; asyncio has just set this to how many it accepts in one go."""
    listener.listen(_BACKLOG)


async def take_in_last(listeners: Sequence[socket.socket], seconds: float) -> bool:
    """Shorten the queues of new connections to one, and wait until they are empty: closing would reset them.

    Args:
        listeners: Listening sockets that connections are accepted from.
        seconds: The longest wait.

    Returns:
        Whether all queued connections were accepted.
    """
    for listener in listeners:
        listener.listen(0)
    try:
        async with asyncio.timeout(seconds):
            while select.select(listeners, (), (), 0)[0]:
                await asyncio.sleep(0)
        # asyncio takes some turns to make a connection of what was accepted, and needs its server for that.
        await asyncio.sleep(_TURNS_SECONDS)
    except TimeoutError:
        return False
    return True


# Enough for any number of clients of one process, and harmless for what walks through all of them.
_MOST: Final = 65_536
# For the listening socket, logs, checkpoints that are loaded anew, devices.
_RESERVE: Final = 128


def claim_descriptors() -> int:
    """Raise this process's limit as far as it may go.

    Returns:
        For how many connections that is enough.
    """
    soft, hard = (_MOST if limit == resource.RLIM_INFINITY else limit for limit in _limits())
    granted = max(soft, min(hard, _MOST))
    if granted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (granted, _limits()[1]))
    return granted - min(_RESERVE, granted // 2)


def _limits() -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_NOFILE)
