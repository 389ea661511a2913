import gc
import threading
from collections.abc import Iterator
from itertools import count

import pytest

from model.training.data.prefetch import Prefetcher


def prefetch_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "dragoman-prefetch"}


@pytest.fixture
def others() -> set[threading.Thread]:
    """Threads that other tests have left behind, about to end."""
    return prefetch_threads()


def test_items_come_in_order_and_end(others: set[threading.Thread]) -> None:
    prefetcher = Prefetcher(iter(range(50)), 3)
    assert list(prefetcher) == list(range(50))
    assert list(prefetcher) == []
    assert prefetch_threads() <= others


def test_runs_at_most_depth_ahead() -> None:
    taken: list[int] = []
    full = threading.Event()

    def source() -> Iterator[int]:
        for number in count():
            taken.append(number)
            if len(taken) == 5:  # one handed out, three ready, one waiting for room
                full.set()
            yield number

    prefetcher = Prefetcher(source(), 3)
    assert next(prefetcher) == 0
    assert full.wait(60)
    assert not threading.Event().wait(0.05)
    assert taken == [0, 1, 2, 3, 4]
    prefetcher.close()


def test_error_comes_in_its_place(others: set[threading.Thread]) -> None:
    def source() -> Iterator[int]:
        yield 1
        raise OSError("disk is gone")

    prefetcher = Prefetcher(source(), 4)
    assert next(prefetcher) == 1
    with pytest.raises(OSError, match="disk is gone"):
        next(prefetcher)
    assert prefetch_threads() <= others


def test_close_ends_the_thread_and_the_iteration(others: set[threading.Thread]) -> None:
    prefetcher = Prefetcher(count(), 2)
    assert next(prefetcher) == 0
    prefetcher.close()
    prefetcher.close()
    assert prefetch_threads() <= others
    assert list(prefetcher) == []


def test_dropped_prefetcher_ends_its_thread(others: set[threading.Thread]) -> None:
    prefetcher = Prefetcher(count(), 2)
    next(prefetcher)
    (thread,) = prefetch_threads() - others
    del prefetcher
    gc.collect()
    thread.join(timeout=60)
    assert not thread.is_alive()
