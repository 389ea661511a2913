"""① Limits of connections: how many there are at a time, and how slowly their bytes may arrive."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

# Places above the room, for those who are just being told that there is none.
_ANTEROOM: Final = 16


class Guest(Protocol):
    """A connection."""

    def make_room(self) -> None:
        """Close, without a word: no request is at hand, and somebody else needs the place."""


class Door:
    """Counts the connections of one server, and lets go of the longest idle where there is no more room.

    Otherwise some hundred clients that only connect would lock everybody out.

    Args:
        room: Most connections at a time.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._num_inside = 0
        # Those that have been idle for longest come first.
        self._idle: dict[Guest, None] = {}

    @property
    def is_overrun(self) -> bool:
        """Whether there is not even room for those who are told that there is none."""
        return self._num_inside > self._room + _ANTEROOM

    def enter(self, guest: Guest) -> bool:
        """Count a new connection, which `leaves` in any case; an idle one may have to go for it.

        Returns:
            Whether there is room for it.
        """
        self._num_inside += 1
        if self._num_inside > self._room:
            if not self._idle:
                return False
            longest = next(iter(self._idle))
            self.occupy(longest)
            longest.make_room()
        self.rest(guest)
        return True

    def rest(self, guest: Guest) -> None:
        """It has no request at hand."""
        self._idle[guest] = None

    def occupy(self, guest: Guest) -> None:
        """It has one, or is about to close."""
        self._idle.pop(guest, None)

    def leave(self, guest: Guest) -> None:
        """It is closed."""
        self.occupy(guest)
        self._num_inside -= 1


_BYTES: Final = 16 * 1024


class Pace:
    """Ends a connection whose client would otherwise hold it for ever, with a byte now and then.

    Args:
        loop: Where time is told.
        seconds: Within which 16 KiB have to move, again and again.
        moved: Bytes so far; only what is added counts.
        give_up: Is called once when it was too little.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        *,
        moved: Callable[[], int],
        give_up: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._seconds = seconds
        self._moved = moved
        self._give_up = give_up
        self._handle: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """From now on, unless it is watched already."""
        if self._handle is None:
            self._handle = self._loop.call_later(self._seconds, self._check, self._moved())

    def stop(self) -> None:
        """No more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _check(self, moved_before: int) -> None:
        self._handle = None
        if self._moved() - moved_before < _BYTES:
            self._give_up()
        else:
            self.watch()
