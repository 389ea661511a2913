"""① Limits how many requests start per iteration of the event loop, so that 503s stay fast under overload.

To read, check and tokenise a request takes the event loop about half a millisecond. If 800 requests started
in one iteration, all others would wait for a third of a second, those included that are refused at once.
The limit must stay above what the engines finish in an iteration, or they run out of sentences.
"""

import asyncio
from typing import Final

from app.scheduling.fair_queue import FairSemaphore

_PER_ITERATION: Final = 16


class StartLimiter:
    """Starts requests at once or, if too many have started in this iteration, in a fair order of clients.

    Only the event loop uses it.

    Args:
        limit: Highest number of starts in an iteration.
    """

    def __init__(self, limit: int = _PER_ITERATION) -> None:
        self._limit = limit
        self._starts = FairSemaphore(limit)
        self._is_end_due = False

    def may_start(self) -> bool:
        """Returns whether a request may start at once; if not, it has to `wait`."""
        is_free = self._starts.try_acquire()
        if is_free:
            self._watch_iteration()
        return is_free

    async def wait(self, client: str) -> None:
        """Return in an iteration in which a request of this client may start."""
        await self._starts.acquire(client)

    def _watch_iteration(self) -> None:
        if not self._is_end_due:
            self._is_end_due = True
            asyncio.get_running_loop().call_soon(self._end_iteration)

    def _end_iteration(self) -> None:
        """Let as many requests start again: the event loop has polled its sockets since the last ones."""
        self._is_end_due = False
        for _ in range(self._limit - self._starts.free):
            self._starts.release()
        if self._starts.free < self._limit:
            self._watch_iteration()
