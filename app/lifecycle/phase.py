"""The phase of the process (loading, ready, draining or failed), and its requests in flight."""

import asyncio
from collections.abc import Callable
from enum import Enum

from app.errors import DrainingError, NotReadyError


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
        self._is_empty: asyncio.Event | None = None

    def leave(self) -> None:
        """Record that one of them is answered."""
        self.size -= 1
        if self.size == 0 and self._is_empty is not None:
            self._is_empty.set()

    async def wait(self) -> None:
        """Wait until all of them are answered; none may be added any more."""
        if self.size:
            self._is_empty = asyncio.Event()
            await self._is_empty.wait()


class Lifecycle:
    """The process's phase and its requests in flight, all on the event loop.

    Attributes:
        phase: What the process is doing.
        failure: Why loading failed; None otherwise.
        is_forced: Whether requests in flight are rejected too, because the process must end now.
        cancel_callbacks: Called for that; each rejects the work of one scheduler.
        reload_requested: Set to have the checkpoints loaded again.
    """

    def __init__(self) -> None:
        self.phase = Phase.LOADING
        self.failure: Exception | None = None
        self.is_forced = False
        self.cancel_callbacks: set[Callable[[], None]] = set()
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
