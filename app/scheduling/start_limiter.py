"""① Limits how many requests start per iteration of the event loop, so that 503s stay fast under overload.

To read, check and tokenise a request takes the event loop about half a millisecond. If 800 requests started
in one iteration, all others would wait for a third of a second, those included that are refused at once.
The limit must stay above what the engines finish in an iteration, or they run out of sentences.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from app.scheduling.fair_queue import FairQueue

_PER_ITERATION: Final = 16


@dataclass(eq=False, slots=True)
class _Waiting:
    client: str
    released: asyncio.Future[None]
    cost: int = 1


class StartLimiter:
    """Starts requests at once or, if too many have started in this iteration, in a fair order of clients.

    Only the event loop uses it.

    Args:
        limit: Highest number of starts in an iteration.
    """

    def __init__(self, limit: int = _PER_ITERATION) -> None:
        self._limit = limit
        self._num_started = 0
        self._queue: FairQueue[_Waiting] = FairQueue()

    def may_start(self) -> bool:
        """Whether a request may start at once; if not, it has to `wait`."""
        is_free = self._num_started < self._limit and not self._queue
        if is_free:
            self._count()
        return is_free

    async def wait(self, client: str) -> None:
        """Return in an iteration in which a request of this client may start."""
        waiting = _Waiting(client, asyncio.get_running_loop().create_future())
        self._queue.add(waiting)
        try:
            await waiting.released
        finally:
            self._queue.remove(waiting)

    def _count(self) -> None:
        if self._num_started == 0:
            asyncio.get_running_loop().call_soon(self._start_waiting)
        self._num_started += 1

    def _start_waiting(self) -> None:
        """Begin a new iteration: the event loop has polled its sockets since the last one."""
        self._num_started = 0
        while self._num_started < self._limit and (waiting := self._queue.first(lambda _: True)) is not None:
            self._queue.serve(waiting)
            if not waiting.released.done():
                waiting.released.set_result(None)
                self._count()
