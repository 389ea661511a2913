"""① How many requests begin in one turn of the event loop: few where many wait, so that refusals need not.

To read, check and tokenise a request takes the event loop about half a millisecond. If hundreds did so in
one turn, whoever comes meanwhile, or is to be refused, would wait for all of them. As long as few wait they
go together: engines like what arrives at once better than what trickles in.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from app.scheduling.fair_queue import FairQueue

_TOGETHER: Final = 16
_IN_A_CROWD: Final = 1


@dataclass(eq=False, slots=True)
class _Waiting:
    client: str
    released: asyncio.Future[None]
    cost: int = 1


class Turnstile:
    """Who finds it free passes at once; the others pass in a fair order of clients. The event loop only.

    Args:
        together: Most that pass in one turn of the event loop while no more than that wait.
        in_a_crowd: Most that pass while more than that wait.
    """

    def __init__(self, together: int = _TOGETHER, in_a_crowd: int = _IN_A_CROWD) -> None:
        self._together = together
        self._in_a_crowd = in_a_crowd
        self._num_passed = 0
        self._queue: FairQueue[_Waiting] = FairQueue()

    def passes(self) -> bool:
        """Whether one more may pass at once; if not, it has to `wait`."""
        is_free = self._num_passed < self._together and not self._queue
        if is_free:
            self._count()
        return is_free

    async def wait(self, client: str) -> None:
        """Return in a turn in which one more may pass."""
        waiting = _Waiting(client, asyncio.get_running_loop().create_future())
        self._queue.add(waiting)
        try:
            await waiting.released
        finally:
            self._queue.remove(waiting)

    def _count(self) -> None:
        if self._num_passed == 0:
            asyncio.get_running_loop().call_soon(self._turn)
        self._num_passed += 1

    def _turn(self) -> None:
        """The event loop has been at its sockets since."""
        self._num_passed = 0
        most = self._together if len(self._queue) <= self._together else self._in_a_crowd
        while self._num_passed < most and (waiting := self._queue.first(_anybody)) is not None:
            self._queue.serve(waiting)
            if not waiting.released.done():
                waiting.released.set_result(None)
                self._count()


def _anybody(_waiting: _Waiting) -> bool:
    return True
