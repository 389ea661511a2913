"""Work in daemon threads, which do not delay the end of the process."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

Result = TypeVar("Result")


async def in_background(work: Callable[[], Result]) -> Result:
    """Run work in a thread; if the caller is cancelled, the work goes on."""
    return await start(work)


def start(
    work: Callable[[], Result], *, name: str = "background", ended: Callable[[], None] | None = None
) -> asyncio.Future[Result]:
    """Start work in a thread.

    Args:
        work: The work.
        name: The name of the thread.
        ended: Is called on the event loop when the thread has ended, even if the result was cancelled.

    Returns:
        The result; if it is cancelled, the work goes on.

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
        # The event loop may be closed by now.
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
