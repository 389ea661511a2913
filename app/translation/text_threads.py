"""②③⑧ Threads for work on long texts, which would stall the event loop; clients get them in a fair order."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

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
        self._pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="text")

    def close(self) -> None:
        """End the threads after what they are at, which nobody waits for: it may take seconds."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def run(self, work: Callable[[], Result], *, client: str, cost: int) -> Result:
        """Work on a thread; who is cancelled meanwhile leaves the thread to the next one when it is free.

        Args:
            work: What to do there.
            client: Whose it is.
            cost: How long it may take, e.g. characters; at least 1.
        """
        await self._enter(client, cost)
        loop = asyncio.get_running_loop()
        try:
            future = self._pool.submit(work)
        except BaseException:
            self._leave()
            raise
        future.add_done_callback(lambda _: _tell(loop, self._leave))
        return await asyncio.wrap_future(future)

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


def _tell(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    # The loop may be gone by now, and with it whoever waited.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(callback)
