"""② ③ ⑧ Threads for work on long texts, which would stall the event loop; clients share them fairly."""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import TypeVar

from app.background import start
from app.errors import DeadlinePassedError
from app.scheduling.fair_queue import FairSemaphore

Result = TypeVar("Result")

# Detecting, splitting and encoding 2,000 characters takes a few milliseconds, which the event loop
# can spare; more goes to a thread. A thread costs about 0.1 ms, so short texts stay on the event loop.
_INLINE_CHARACTERS = 2_000


class TextThreads:
    """A few threads. Work that finds none free waits in a fair queue of clients.

    Its methods are for the event loop only.

    Args:
        count: Number of threads.
    """

    def __init__(self, count: int) -> None:
        self._permits = FairSemaphore(count)

    async def run(
        self, work: Callable[[], Result], *, client: str, size: int, deadline: float | None = None
    ) -> Result:
        """Do work on a text: short texts on the event loop, long ones on a thread.

        If the caller is cancelled, the thread finishes the work and serves the next client after that.

        Args:
            work: What to do, in the caller's context.
            client: Name of the client.
            size: Characters of the text.
            deadline: When the result becomes worthless, seconds of the monotonic clock; None for never.

        Raises:
            DeadlinePassedError: If the deadline came before the result of a thread.
        """
        if size <= _INLINE_CHARACTERS:
            return work()
        try:
            async with asyncio.timeout_at(deadline):
                return await self._run_on_thread(work, client, size)
        except TimeoutError:
            raise DeadlinePassedError from None

    async def _run_on_thread(self, work: Callable[[], Result], client: str, size: int) -> Result:
        await self._permits.acquire(client, size)
        try:
            done = start(partial(copy_context().run, work), name="text", ended=self._permits.release)
        except RuntimeError:
            self._permits.release()
            raise
        return await done
