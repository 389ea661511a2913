"""ⓓ An iterator that a background thread keeps a few items ahead of its user."""

import queue
import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")

_POLL_SECONDS = 0.1


class _End:
    """The source has no more items, or failed with `error`."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class Prefetcher(Generic[Item]):
    """Yields what `source` yields, computed ahead of time.

    An error in the source is raised where the item would have come. `close` (also at garbage
    collection) ends the thread; the source is then no longer used.

    Args:
        source: Iterated in the thread alone.
        depth: Items held ready at most.
    """

    def __init__(self, source: Iterator[Item], depth: int) -> None:
        self._ready: queue.Queue[Item | _End] = queue.Queue(depth)
        self._closing = threading.Event()
        self._thread = threading.Thread(
            target=_fill, args=(source, self._ready, self._closing), name="dragoman-prefetch", daemon=True
        )
        self._thread.start()

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        if self._closing.is_set():
            raise StopIteration
        item = self._ready.get()
        if isinstance(item, _End):
            self.close()
            if item.error is not None:
                raise item.error
            raise StopIteration
        return item

    def close(self) -> None:
        """End the thread and wait for it; safe to call again."""
        self._closing.set()
        _drain(self._ready)
        self._thread.join()

    def __del__(self) -> None:
        self._closing.set()


def _fill(source: Iterator[Item], ready: "queue.Queue[Item | _End]", closing: threading.Event) -> None:
    """Thread body; a function, so that the thread does not keep its Prefetcher alive."""
    end = _End()
    try:
        for item in source:
            if not _put(ready, item, closing):
                return
    except BaseException as error:
        end = _End(error)
    _put(ready, end, closing)


def _put(ready: "queue.Queue[Item | _End]", item: Item | _End, closing: threading.Event) -> bool:
    """Wait for room; False if closing came first."""
    while not closing.is_set():
        try:
            ready.put(item, timeout=_POLL_SECONDS)
        except queue.Full:
            continue
        return True
    return False


def _drain(ready: "queue.Queue[Item | _End]") -> None:
    while True:
        try:
            ready.get_nowait()
        except queue.Empty:
            return
