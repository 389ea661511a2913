"""Work in daemon threads, which do not delay the end of the process, and the memory that work leaves."""

import asyncio
import ctypes
import gc
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


def in_background(
    work: Callable[[], Result], *, name: str = "background", ended: Callable[[], None] | None = None
) -> asyncio.Future[Result]:
    """Start work in a thread; if the system grants none, the event loop does it.

    Args:
        work: The work.
        name: The name of the thread.
        ended: Is called on the event loop when the work has ended, even if the result was cancelled.

    Returns:
        The result; if it is cancelled, the work goes on.
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
            loop.call_soon_threadsafe(_finish, done, settle, ended)

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError:
        logger.warning("the system grants no thread; the event loop does the work", extra={"work": name})
        run()
    return done


def _finish(
    done: asyncio.Future[Result], settle: Callable[[], None], ended: Callable[[], None] | None
) -> None:
    if not done.done():
        settle()
    if ended is not None:
        ended()


def reclaim_memory() -> None:
    """Collect garbage, and return free memory to the system; takes some hundredths of a second.

    Later collections leave out what is there now.
    """
    gc.unfreeze()
    gc.collect()
    # What lives as long as the models: modules, schemas, vocabularies.
    gc.freeze()
    release_memory()


def release_memory() -> None:
    """Return memory that was freed to the system."""
    # glibc keeps free memory for later; other C libraries have no such function.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
