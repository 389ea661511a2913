"""① Who comes in: as many connections as there is room for; idle ones make room for new ones."""

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
