"""The phase of the process (loading, ready, draining or failed), its requests in flight, and its shutdown.

A shutdown is graceful: not ready, reject new requests, answer the accepted ones, close, exit status 0. The
first SIGTERM or SIGINT starts it; it ends when no request is in flight or after DRAIN_SECONDS. The second
signal answers the requests in flight with an error, which takes less than a second.
"""

import asyncio
import os
import time
from collections.abc import Callable
from enum import Enum
from typing import Final

from app.errors import DrainingError, NotReadyError

# Load balancers ask /readyz about once a second: they must see a 503 before the socket closes.
_NOTICE_SECONDS: Final = 1.0
# `make` forwards a signal that its whole process group gets: the two count as one.
_ECHO_SECONDS: Final = 0.2
# Cancelled work has this long to answer by itself, which a stream does with an error event.
_CANCEL_SECONDS: Final = 0.2
_FORCE_SECONDS: Final = 0.8


class Phase(Enum):
    """The phases of the process."""

    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"


class InFlightEpoch:
    """Requests that started under the same model set.

    Attributes:
        size: How many of them are in flight.
    """

    def __init__(self) -> None:
        self.size = 0
        self._is_empty = asyncio.Event()

    def leave(self) -> None:
        """Record that one of them is answered."""
        self.size -= 1
        if self.size == 0:
            self._is_empty.set()

    async def wait(self) -> None:
        """Wait until all of them are answered; none may be added any more."""
        if self.size:
            self._is_empty.clear()
            await self._is_empty.wait()


class Lifecycle:
    """The process's phase and its requests in flight, all on the event loop.

    Attributes:
        phase: What the process is doing.
        failure: Why loading failed; None otherwise.
        is_forced: Whether requests in flight are rejected too, because the process must end now.
        cancel_callbacks: `cancel_work` calls them; each rejects work that waits for an engine or runs in one.
        reload_requested: Set to have the checkpoints loaded again.
    """

    def __init__(self) -> None:
        self.phase = Phase.LOADING
        self.failure: Exception | None = None
        self.is_forced = False
        self.cancel_callbacks: list[Callable[[], None]] = []
        self.reload_requested = asyncio.Event()
        self._epoch = InFlightEpoch()
        self._epochs: dict[asyncio.Task[object] | None, InFlightEpoch] = {}

    @property
    def in_flight(self) -> int:
        """Requests that are not answered yet."""
        return len(self._epochs)

    @property
    def unfinished(self) -> int:
        """Requests in flight that arrived before draining began; later ones are rejected anyway."""
        return len(self._epochs) - self._epoch.size if self.phase is Phase.DRAINING else len(self._epochs)

    def enter(self) -> None:
        """Record a new request, which the current task answers."""
        # A signal handler may start to drain between any two of these lines.
        epoch = self._epoch
        epoch.size += 1
        self._epochs[asyncio.current_task()] = epoch

    def leave(self) -> None:
        """Record that the current task's request is answered."""
        self._epochs.pop(asyncio.current_task()).leave()

    def hold_models(self) -> Callable[[], None]:
        """Keep the models of the current request also when it is answered, until the result is called."""
        epoch = self._epochs[asyncio.current_task()]
        epoch.size += 1
        return epoch.leave

    def start_epoch(self) -> InFlightEpoch:
        """Start a new epoch.

        Returns:
            The epoch of the requests that have started so far.
        """
        epoch, self._epoch = self._epoch, InFlightEpoch()
        return epoch

    def become_ready(self) -> None:
        """Leave the loading phase; a process that drains already goes on draining."""
        if self.phase is Phase.LOADING:
            self.phase = Phase.READY

    def drain(self) -> None:
        """Reject new requests from now on."""
        self.phase = Phase.DRAINING
        self.start_epoch()

    def cancel_work(self) -> None:
        """Reject all work that waits for an engine or runs in one; clients get an error, also in streams."""
        self.is_forced = True
        for cancel in self.cancel_callbacks:
            cancel()

    def cancel_requests(self) -> None:
        """Cancel the task of every request in flight."""
        for task in self._epochs:
            if task is not None:
                task.cancel()

    def fail(self, failure: Exception) -> None:
        """Record that loading failed; the server then ends the process."""
        self.phase = Phase.FAILED
        self.failure = failure

    def require_ready(self) -> None:
        """Reject a request unless the process is ready.

        Raises:
            NotReadyError: While loading, or if loading failed.
            DrainingError: While draining.
        """
        if self.phase is Phase.DRAINING:
            raise DrainingError
        if self.phase is not Phase.READY:
            raise NotReadyError


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
        self._is_repeated = False
        self._forced: float | None = None
        self._has_cancelled_requests = False

    @property
    def is_urgent(self) -> bool:
        """Whether the shutdown no longer waits for the requests in flight."""
        return self._is_repeated or self._forced is not None

    def request(self) -> None:
        """Request a shutdown; each signal calls this once."""
        now = self._clock()
        if self._began is None:
            self._began = now
            self._lifecycle.drain()
        elif now - self._began >= _ECHO_SECONDS:
            self._is_repeated = True

    def is_over(self) -> bool:
        """Returns whether to stop listening; called several times a second."""
        if self._began is None:
            return False
        elapsed = self._clock() - self._began
        if self._forced is None and (self._is_repeated or elapsed >= self._drain_seconds):
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


def has_terminal() -> bool:
    """Returns whether standard input, output or error is a terminal that is still open."""
    return any(map(os.isatty, range(3)))
