"""Graceful shutdown: not ready, reject new requests, answer the accepted ones, close, exit status 0.

The first SIGTERM or SIGINT starts the shutdown, which ends when no request is in flight or after
DRAIN_SECONDS. The second signal answers the requests in flight with an error, which takes less than a second.
The third signal closes all connections at once.
"""

import os
import time
from collections.abc import Callable
from typing import Final

from app.lifecycle.phase import Lifecycle

# Load balancers ask /readyz about once a second: they must see a 503 before the socket closes.
_NOTICE_SECONDS: Final = 1.0
# `make` forwards a signal that its whole process group gets: the two count as one.
_ECHO_SECONDS: Final = 0.2
# Cancelled work has this long to answer by itself, which a stream does with an error event.
_CANCEL_SECONDS: Final = 0.2
_FORCE_SECONDS: Final = 0.8


def has_terminal() -> bool:
    """Returns whether standard input, output or error is a terminal that is still open."""
    return any(map(os.isatty, range(3)))


class Shutdown:
    """Decides when to stop listening. Only `request` may be called outside the event loop.

    Args:
        lifecycle: Drains, and cancels the requests in flight.
        drain_seconds: How long the accepted requests may take.
        clock: Monotonic seconds.
    """

    def __init__(
        self, lifecycle: Lifecycle, drain_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lifecycle = lifecycle
        self._drain_seconds = drain_seconds
        self._clock = clock
        self._began: float | None = None
        self._repeated: float | None = None
        self._forced: float | None = None
        self._has_cancelled_requests = False

    @property
    def is_urgent(self) -> bool:
        """Whether the shutdown no longer waits for the requests in flight."""
        return self._repeated is not None or self._forced is not None

    def request(self) -> bool:
        """Request a shutdown; each signal calls this once.

        Returns:
            Whether to close all connections at once.
        """
        now = self._clock()
        if self._began is None:
            self._began = now
            self._lifecycle.drain()
        elif self._repeated is None:
            if now - self._began >= _ECHO_SECONDS:
                self._repeated = now
        else:
            return now - self._repeated >= _ECHO_SECONDS
        return False

    def is_over(self) -> bool:
        """Returns whether to stop listening; called several times a second."""
        if self._began is None:
            return False
        elapsed = self._clock() - self._began
        if self._forced is None and (self._repeated is not None or elapsed >= self._drain_seconds):
            self._forced = self._clock()
            self._lifecycle.cancel_work()
        if self._forced is not None:
            return self._is_forced_over(self._clock() - self._forced)
        return self._lifecycle.unfinished == 0 and elapsed >= _NOTICE_SECONDS

    def _is_forced_over(self, elapsed: float) -> bool:
        if elapsed >= _CANCEL_SECONDS and not self._has_cancelled_requests:
            # Only once: a second time would cancel the error response itself.
            self._has_cancelled_requests = True
            self._lifecycle.cancel_requests()
        return self._lifecycle.unfinished == 0 or elapsed >= _FORCE_SECONDS
