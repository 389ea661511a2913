"""① The least pace at which bytes have to move while one side waits for the other."""

import asyncio
from collections.abc import Callable
from typing import Final

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
