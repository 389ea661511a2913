"""A bound on the processor time of a test."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fails if what is done within takes more time of this thread, on however busy a machine."""
    start = time.thread_time()
    yield
    assert time.thread_time() - start < seconds
