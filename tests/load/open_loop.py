"""Requests that come when they come: a Poisson stream that does not wait for the answers to earlier ones.

A generator whose every connection waits for its answer asks less of a service the slower it is, and so
leaves out what those would have seen who come all the same ("coordinated omission"). Here the times of
arrival are drawn beforehand, and a latency counts from the time when its request was meant to be sent.
"""

import asyncio
import gc
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle

from benchmarks.connection import Answer, Connection
from tests.load.arrivals import REFUSALS, Sample, Seen, Stream

# After so many requests without a pause, answers get a turn.
_AT_ONCE = 32
_CONNECTING_SECONDS = 30.0


async def send(stream: Stream) -> Seen:
    """Send a whole stream, and wait for the answers."""
    seen, computed = Seen(), time.process_time()
    pool = _Pool(stream, seen, time.perf_counter())
    with _without_collections():
        await _send_all(stream, pool)
        await pool.settle(stream.patience)
    seen.processor = time.process_time() - computed
    return seen


async def _send_all(stream: Stream, pool: "_Pool") -> None:
    num_without_pause = 0
    for intended in stream.arrivals():
        delay = intended - pool.now()
        num_without_pause = 0 if delay > 0 else num_without_pause + 1
        if delay > 0 or num_without_pause % _AT_ONCE == 0:
            await asyncio.sleep(max(delay, 0.0))
        pool.ask(intended)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Nothing here makes cycles, and to look for some would show in the latencies."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Pool:
    """Connections, those that are free, and requests that wait for one."""

    def __init__(self, stream: Stream, seen: Seen, began: float) -> None:
        self._stream, self._began = stream, began
        self._requests, self._sources = cycle(stream.requests), cycle(stream.sources)
        self.seen = seen
        self.free: list[_Line] = []
        self.lines: set[_Line] = set()
        self.waiting: deque[float] = deque()
        self._connecting: set[asyncio.Task[None]] = set()

    def now(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self._began

    def ask(self, intended: float) -> None:
        """Send the next request as soon as there is a connection for it."""
        if self.free:
            self.free.pop().ask(intended)
            return
        self.waiting.append(intended)
        self.open_another()

    def open_another(self) -> None:
        """Connect once more, as far as that is permitted."""
        if len(self.lines) + len(self._connecting) < self._stream.most_connections:
            task = asyncio.create_task(self._connect())
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    def next_request(self) -> bytes:
        """What is sent next."""
        return next(self._requests)

    async def settle(self, patience: float) -> None:
        """Wait until everything that was sent is answered, and let those go that are not by then."""
        await self._wait_until(lambda: not self._connecting, _CONNECTING_SECONDS)
        self.seen.unsent += len(self.waiting)
        self.waiting.clear()
        await self._wait_until(lambda: len(self.free) == len(self.lines), patience)
        for task in self._connecting:
            task.cancel()
        for line in list(self.lines):
            line.leave()
        await asyncio.sleep(0)

    async def _wait_until(self, is_over: Callable[[], bool], seconds: float) -> None:
        until = self.now() + seconds
        while not is_over() and self.now() < until:
            await asyncio.sleep(0.02)

    async def _connect(self) -> None:
        line = _Line(self)
        source = (address, 0) if (address := next(self._sources)) else None
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: line.connection, self._stream.host, self._stream.port, local_addr=source
            )
        except OSError:
            if self.waiting:
                self.waiting.popleft()
                self.seen.lost += 1


class _Line:
    """One connection, and the request that is on it."""

    def __init__(self, pool: _Pool) -> None:
        self.connection = Connection(self._opened, self._answered, self._lost)
        self._pool = pool
        self._sent: float | None = None
        self._intended = 0.0

    def ask(self, intended: float) -> None:
        """Send the next request."""
        self._intended, self._sent = intended, self._pool.now()
        self.connection.send(self._pool.next_request())

    def leave(self) -> None:
        """Hang up."""
        if self._sent is not None:
            self._pool.seen.left += 1
            self._sent = None
        self.connection.close()

    def _opened(self) -> None:
        self._pool.lines.add(self)
        self._go_on()

    def _answered(self, answer: Answer) -> None:
        if self._sent is not None:
            is_orderly = answer.status not in REFUSALS or answer.says_when_to_return
            sample = Sample(self._intended, self._sent, self._pool.now(), answer.status, is_orderly)
            self._pool.seen.samples.append(sample)
        self._sent = None
        if answer.is_last:
            self.connection.close()
        else:
            self._go_on()

    def _go_on(self) -> None:
        if self._pool.waiting:
            self.ask(self._pool.waiting.popleft())
        else:
            self._pool.free.append(self)

    def _lost(self, _reason: Exception | None) -> None:
        self._pool.lines.discard(self)
        if self._sent is not None:
            self._pool.seen.lost += 1
            self._sent = None
        elif self in self._pool.free:
            self._pool.free.remove(self)
        if self._pool.waiting:
            self._pool.open_another()
