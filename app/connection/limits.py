"""① Limits of connections: their number, and the least rate at which their bytes have to move."""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from app.connection.protocol import Protocol

# Connections above the limit that get a 503; further ones are closed without an answer.
_NUM_ANSWERED: Final = 16
_LEAST_BYTES: Final = 16 * 1024


class ConnectionLimit:
    """Counts the connections of one server, and closes the longest idle one when there are too many.

    Otherwise a few hundred clients that connect and stay silent would lock out all others.

    Args:
        limit: Highest number of connections.
        on_closed: Called when one is closed.
    """

    def __init__(self, limit: int, on_closed: Callable[[], None] = lambda: None) -> None:
        self._limit = limit
        self._on_closed = on_closed
        self._num_open = 0
        # Since when each has been idle, seconds of the monotonic clock; the longest idle comes first.
        self._idle: dict[Protocol, float] = {}

    @property
    def is_overrun(self) -> bool:
        """Returns whether there are too many connections even to answer each of them."""
        return self._num_open > self._limit + _NUM_ANSWERED

    def open(self, client: "Protocol") -> bool:
        """Count a new connection, which has to call `close` in any case; an idle one may be closed for it.

        Returns:
            Whether the connection is within the limit.
        """
        self._num_open += 1
        if self._num_open > self._limit:
            if not self._idle:
                return False
            self._close_longest()
        self.set_idle(client)
        return True

    def set_idle(self, client: "Protocol") -> None:
        """Record that a connection has no request in progress."""
        self._idle.pop(client, None)
        self._idle[client] = time.monotonic()

    def set_busy(self, client: "Protocol") -> None:
        """Record that a connection has a request in progress, or is about to close."""
        self._idle.pop(client, None)

    def close_idle(self, seconds: float) -> None:
        """Close the connections on which no request has begun for so many seconds."""
        before = time.monotonic() - seconds
        while self._idle and next(iter(self._idle.values())) <= before:
            self._close_longest()

    def _close_longest(self) -> None:
        longest = next(iter(self._idle))
        self.set_busy(longest)
        longest.close_idle()

    def close(self, client: "Protocol") -> None:
        """Record that a connection is closed."""
        self.set_busy(client)
        self._num_open -= 1
        self._on_closed()


class MinRateTimeout:
    """Ends a connection whose client sends or reads only a byte now and then.

    Args:
        loop: Runs the timers.
        seconds: Time in which at least 16 KiB have to move, as long as it runs.
        moved: Returns the bytes moved so far; only differences count.
        expire: Is called once when fewer bytes moved.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        *,
        moved: Callable[[], int],
        expire: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._seconds = seconds
        self._moved = moved
        self._expire = expire
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start, unless it runs already."""
        if self._handle is None:
            self._handle = self._loop.call_later(self._seconds, self._check, self._moved())

    def stop(self) -> None:
        """Stop, if it runs."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _check(self, moved_before: int) -> None:
        self._handle = None
        if self._moved() - moved_before < _LEAST_BYTES:
            self._expire()
        else:
            self.start()
