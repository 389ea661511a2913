"""① The gate: how many requests, and how many bytes of them, are admitted at a time.

Nobody waits at the door: whoever is let in is read and then waits in the fair queue for the engines, and
whoever is not is told at once when to come back.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from app.admission import quota
from app.admission.quota import MeasuredRate, Tally
from app.errors import DeadlinePassedError, HouseFullError


class Room:
    """A bound, within which no client gets more than its share.

    Args:
        size: How much there is.

    Attributes:
        taken: How much of it is in use.
    """

    def __init__(self, size: int) -> None:
        self.taken = 0
        self._size = size
        self._of_client = Tally()

    def fits(self, amount: int, client: str) -> bool:
        """Whether a client may take so much more."""
        return quota.fits(amount, mine=self._of_client[client], free=self._size - self.taken)

    def take(self, amount: int, client: str) -> None:
        """Use so much, or give it back if it is negative."""
        self.taken += amount
        self._of_client.add(client, amount)


class Admission:
    """Counts the requests being served; the event loop only, so every method is one indivisible step.

    Args:
        max_requests: Most in the house.
        max_held_bytes: Most bytes of bodies that are being read, and characters that are being served.
        clock: Seconds that never go back.
    """

    def __init__(
        self, max_requests: int, max_held_bytes: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._places = Room(max_requests)
        self._bytes = Room(max_held_bytes)
        self._clock = clock
        self._rate = MeasuredRate(workers=1)
        self._since = 0.0

    @property
    def in_house(self) -> int:
        """Requests that have a turn."""
        return self._places.taken

    def full(self) -> HouseFullError:
        """That there is no room, and when there will be: once all who are in the house are answered."""
        return HouseFullError(self._rate.seconds_for(self.in_house))

    @contextmanager
    def reading(self, client: str | None, size: int) -> Iterator[None]:
        """Room for a body while it is read.

        Args:
            client: Whose it is; those who are not known yet share what one client gets.
            size: Bytes that it says it has, or may have.

        Raises:
            HouseFullError: If there is no room for it, or for what would follow.
        """
        client = client or ""
        self._require_room(client, size)
        self._bytes.take(size, client)
        try:
            yield
        finally:
            self._bytes.take(-size, client)

    def turn(self, client: str, deadline: float, size: int = 0) -> "Stay":
        """A place in the house for as long as the block lasts, however it ends.

        Args:
            client: Whose request it is.
            deadline: When its answer becomes worthless, on the clock.
            size: Characters of its texts.

        Raises:
            HouseFullError: On entering, if there is no room, or none for this client.
            DeadlinePassedError: On entering, if it comes too late already.
        """
        return Stay(self, client, deadline, size)

    def enter(self, client: str, deadline: float, size: int = 0) -> None:
        """See `turn`; whoever came in has to `leave`."""
        self._require_room(client, size)
        now = self._clock()
        if deadline <= now:
            raise DeadlinePassedError
        if self.in_house == 0:
            self._since = now
        self._places.take(1, client)
        self._bytes.take(size, client)

    def leave(self, client: str, size: int = 0) -> None:
        """Give a place back."""
        now = self._clock()
        self._rate.record(1, now - self._since)
        self._since = now
        self._places.take(-1, client)
        self._bytes.take(-size, client)

    def _require_room(self, client: str, size: int) -> None:
        if not (self._places.fits(1, client) and self._bytes.fits(size, client)):
            raise self.full()


class Stay:
    """See `Admission.turn`."""

    __slots__ = ("_admission", "_client", "_deadline", "_size")

    def __init__(self, admission: Admission, client: str, deadline: float, size: int) -> None:
        self._admission = admission
        self._client = client
        self._deadline = deadline
        self._size = size

    async def __aenter__(self) -> None:
        self._admission.enter(self._client, self._deadline, self._size)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admission.leave(self._client, self._size)
