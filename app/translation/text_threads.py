"""②③⑧ Threads for work on long texts, which would stall the event loop; clients get them in a fair order."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from app.background import start
from app.scheduling.fair_queue import FairQueue

Result = TypeVar("Result")


@dataclass(eq=False, slots=True)
class _Visitor:
    """Waits for a thread."""

    client: str
    cost: int
    called: asyncio.Future[None]


class TextThreads:
    """A few threads; who finds none free waits in a fair queue, not behind the pile of one client.

    Its methods are for the event loop only.

    Args:
        count: How many there are.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: FairQueue[_Visitor] = FairQueue()

    async def run(self, work: Callable[[], Result], *, client: str, cost: int) -> Result:
        """Work on a thread; who is cancelled meanwhile leaves the thread to the next one when it is free.

        Args:
            work: What to do there.
            client: Whose it is.
            cost: How long it may take, e.g. characters; at least 1.
        """
        await self._enter(client, cost)
        try:
            done = start(work, name="text", ended=self._leave)
        except RuntimeError:
            self._leave()
            raise
        return await done

    async def _enter(self, client: str, cost: int) -> None:
        if self._free:
            self._free -= 1
            return
        visitor = _Visitor(client, cost, asyncio.get_running_loop().create_future())
        self._waiting.add(visitor)
        try:
            await visitor.called
        except asyncio.CancelledError:
            if not self._waiting.remove(visitor) and not visitor.called.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        """Call the next one; those that were cancelled just now have not heard of it yet."""
        while (visitor := self._waiting.first(lambda _: True)) is not None:
            self._waiting.serve(visitor)
            if not visitor.called.done():
                visitor.called.set_result(None)
                return
        self._free += 1
