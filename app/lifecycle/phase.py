"""Where the process stands: loading, ready, draining or failed; and the requests that are in flight."""

import asyncio
from collections.abc import Callable
from enum import Enum

from app.errors import DrainingError, NotReadyError


class Phase(Enum):
    """What the process is doing."""

    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"


class InFlightEpoch:
    """Requests that came while one and the same service answered.

    Attributes:
        size: How many of them are in flight.
    """

    def __init__(self) -> None:
        self.size = 0
        self._all_gone: asyncio.Event | None = None

    def leave(self) -> None:
        """One of them has its answer."""
        self.size -= 1
        if self.size == 0 and self._all_gone is not None:
            self._all_gone.set()

    async def gone(self) -> None:
        """Wait until all of them have their answers; nobody may join any more."""
        if self.size:
            self._all_gone = asyncio.Event()
            await self._all_gone.wait()


class Lifecycle:
    """The process's phase and its requests in flight, all on the event loop.

    Attributes:
        phase: What the process is doing.
        failure: Why loading failed; None otherwise.
        is_cut_short: Whether what is in flight is refused too, because the process must end now.
        refusers: What to call for that: each refuses the work that it holds.
        reload_asked: Set when somebody wants the checkpoints to be read again.
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
        """Requests whose answer is not out yet."""
        return len(self._epochs)

    @property
    def unfinished(self) -> int:
        """Those of them that came before the process began to drain; who comes later is refused anyway."""
        return len(self._epochs) - self._epoch.size if self.phase is Phase.DRAINING else len(self._epochs)

    def enter(self) -> None:
        """A request came; the current task answers it."""
        # A signal may begin to drain between any two of these steps.
        epoch = self._epoch
        epoch.size += 1
        self._epochs[asyncio.current_task()] = epoch

    def leave(self) -> None:
        """The current task's request has its answer."""
        self._epochs.pop(asyncio.current_task()).leave()

    def part(self) -> InFlightEpoch:
        """The requests that came so far; those to come are others."""
        epoch, self._epoch = self._epoch, InFlightEpoch()
        return epoch

    def become_ready(self) -> None:
        """Loading is done; a process that drains already stays so."""
        if self.phase is Phase.LOADING:
            self.phase = Phase.READY

    def drain(self) -> None:
        """Take no more traffic."""
        self.phase = Phase.DRAINING
        self.part()

    def cancel_work(self) -> None:
        """Refuse what waits for an engine or is in one; its clients are told so, streams included."""
        self.is_forced = True
        for refuse in self.cancel_callbacks:
            refuse()

    def cancel_requests(self) -> None:
        """End every request that is still in flight, wherever it is."""
        for task in self._epochs:
            if task is not None:
                task.cancel()

    def fail(self, failure: Exception) -> None:
        """Loading did not work; the server ends the process."""
        self.phase = Phase.FAILED
        self.failure = failure

    def require_ready(self) -> None:
        """Refuse unless traffic can be served.

        Raises:
            NotReadyError: While loading, or if loading failed.
            DrainingError: Before the end.
        """
        if self.phase is Phase.DRAINING:
            raise DrainingError
        if self.phase is not Phase.READY:
            raise NotReadyError
