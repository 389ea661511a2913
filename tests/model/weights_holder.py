"""A holder of shared weights for tests."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from model.native.shared_weights import WeightsHolder


@contextmanager
def answering_holder() -> Iterator[WeightsHolder]:
    """A holder that a thread keeps answering."""
    holder, has_ended = WeightsHolder(), threading.Event()

    def answer() -> None:
        while not has_ended.is_set():
            holder.answer(0.01)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield holder
    finally:
        has_ended.set()
        thread.join()
        holder.close()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait at most a minute."""
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.001)
