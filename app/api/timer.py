"""Something that is to happen after a while, unless it is called off."""

import asyncio
from collections.abc import Callable


class Timer:
    """Does something after a while, unless it is cancelled before; starting it twice changes nothing.

    Args:
        loop: Where it happens.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        """Whether something is to happen."""
        return self._handle is not None

    def start(self, seconds: float, action: Callable[[], None]) -> None:
        """Do it then."""
        if self._handle is None:
            self._handle = self._loop.call_later(seconds, self._run, action)

    def cancel(self) -> None:
        """Do not."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _run(self, action: Callable[[], None]) -> None:
        self._handle = None
        action()
