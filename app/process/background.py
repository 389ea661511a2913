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
            loop.call_soon_threadsafe(_unless_done, done, settle)

    threading.Thread(target=run, name="background", daemon=True).start()
    return await done


def _unless_done(future: asyncio.Future[Result], settle: Callable[[], None]) -> None:
    if not future.done():
        settle()
