"""Work in a thread that the end of the process does not wait for, as it does for asyncio's own."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

Result = TypeVar("Result")


async def in_background(work: Callable[[], Result]) -> Result:
    """What `work` returns or raises; whoever stops waiting leaves it to itself."""
    return await start(work)


def start(
    work: Callable[[], Result], *, name: str = "background", ended: Callable[[], None] | None = None
) -> asyncio.Future[Result]:
    """Begin work; cancelling what this returns leaves it to itself.

    Args:
        work: What to do there.
        name: Of the thread.
        ended: Is called on the event loop once the thread is free, whether anybody waits for it or not.

    Raises:
        RuntimeError: If the system grants no thread.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def run() -> None:
        settle: Callable[[], None]
        try:
            settle = partial(done.set_result, work())
        except BaseException as failure:
            settle = partial(done.set_exception, failure)
        # The loop may be gone by now, and with it whoever waited.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_tell, done, settle, ended)

    threading.Thread(target=run, name=name, daemon=True).start()
    return done


def _tell(
    future: asyncio.Future[Result], settle: Callable[[], None], ended: Callable[[], None] | None
) -> None:
    if not future.done():
        settle()
    if ended is not None:
        ended()
