"""① Who may come in: how many requests are in the house, and how many of them are one client's.

Nobody waits at the door: whoever is let in is read and then waits in the fair queue for the engines, and
whoever is not is told at once when to come back.
"""

import time
from collections.abc import Callable
from types import TracebackType

from app.errors import DeadlinePassedError, HouseFullError, UnavailableError
from app.scheduling import share
from app.scheduling.rate import MeasuredRate
from app.scheduling.tally import Tally


class Admission:
    """Counts the requests being served; the event loop only, so every method is one indivisible step.

    Args:
        max_requests: Most in the house.
        clock: Seconds that never go back.

    Attributes:
        in_house: Requests that have a turn.
    """

    def __init__(self, max_requests: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.in_house = 0
        self._max_requests = max_requests
        self._clock = clock
        self._of_client = Tally()
        self._rate = MeasuredRate(workers=1)
        self._since = 0.0

    def refusal(self, client: str | None) -> UnavailableError | None:
        """Why a request would not be let in just now, or None; cheap, and it changes nothing.

        Args:
            client: Whose it is; None if that is not known yet.
        """
        mine = self._of_client[client] if client is not None else 0
        if share.fits(1, mine=mine, free=self._max_requests - self.in_house):
            return None
        # By then all who are in the house now have been answered.
        return HouseFullError(self._rate.seconds_for(self.in_house))

    def turn(self, client: str, deadline: float) -> "Turn":
        """A place in the house for as long as the block lasts, however it ends.

        Args:
            client: Whose request it is.
            deadline: When its answer becomes worthless, on the clock.

        Raises:
            HouseFullError: On entering, if there is no room, or none for this client.
            DeadlinePassedError: On entering, if it comes too late already.
        """
        return Turn(self, client, deadline)

    def enter(self, client: str, deadline: float) -> None:
        """See `turn`; whoever came in has to `leave`."""
        refusal = self.refusal(client)
        if refusal is not None:
            raise refusal
        now = self._clock()
        if deadline <= now:
            raise DeadlinePassedError
        if self.in_house == 0:
            self._since = now
        self.in_house += 1
        self._of_client.add(client, 1)

    def leave(self, client: str) -> None:
        """Give a place back."""
        now = self._clock()
        self._rate.record(1, now - self._since)
        self._since = now
        self.in_house -= 1
        self._of_client.add(client, -1)


class Turn:
    """See `Admission.turn`."""

    __slots__ = ("_admission", "_client", "_deadline")

    def __init__(self, admission: Admission, client: str, deadline: float) -> None:
        self._admission = admission
        self._client = client
        self._deadline = deadline

    async def __aenter__(self) -> None:
        self._admission.enter(self._client, self._deadline)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admission.leave(self._client)
