"""Where the process stands: loading, ready, draining or failed; read by probes and by the server."""

from enum import Enum

from app.errors import DrainingError, NotReadyError


class Phase(Enum):
    """What the process is doing."""

    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"


class Lifecycle:
    """The process's phase and its requests in flight.

    Attributes:
        phase: What the process is doing.
        failure: Why loading failed; None otherwise.
        in_flight: Requests whose answer is not out yet.
    """

    def __init__(self) -> None:
        self.phase = Phase.LOADING
        self.failure: Exception | None = None
        self.in_flight = 0

    def become_ready(self) -> None:
        """Loading is done; a process that drains already stays so."""
        if self.phase is Phase.LOADING:
            self.phase = Phase.READY

    def drain(self) -> None:
        """Take no more traffic."""
        self.phase = Phase.DRAINING

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
