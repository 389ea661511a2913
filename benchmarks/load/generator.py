"""Two ways to put a service under load, both as cheap as Python allows.

In a closed loop (`keep_busy`) each connection sends its next request as soon as it has an answer. That
measures capacity, but asks less of a service the slower it is ("coordinated omission"). In an open loop
(`send`) the times of arrival are drawn beforehand as a Poisson stream, and a latency counts from when its
request was meant to be sent.

As a process, `python -m benchmarks.load.generator` reads a `Job` as a line of JSON and writes a `Busy`.
"""

import asyncio
import gc
import json
import math
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, cycle
from typing import NamedTuple

PATH = "/translate"
REFUSALS = (429, 503)
_HEAD = "POST {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {length}\r\n\r\n"
_END_OF_HEAD, _LENGTH = b"\r\n\r\n", b"content-length:"
_RETRY_AFTER, _CLOSE = b"\r\nretry-after:", b"\r\nconnection: close"
# After this many requests without a pause, answers get a turn.
_AT_ONCE = 32
_CONNECTING_SECONDS = 30.0


def message(host: str, body: str, headers: Mapping[str, str], path: str = PATH) -> bytes:
    """A whole HTTP request with a JSON body."""
    content = body.encode()
    fields = "".join(
        f"{name}: {value}\r\n" for name, value in {"Content-Type": "application/json", **headers}.items()
    )
    return _HEAD.format(path=path, host=host, headers=fields, length=len(content)).encode() + content


class Answer(NamedTuple):
    """An HTTP answer: its status, its head in lower case, its content."""

    status: int
    head: bytes
    body: bytes


class Connection(asyncio.Protocol):
    """A connection that is kept open, with one request at a time.

    Args:
        opened: Called once it stands.
        answered: Called with each answer.
        lost: Called when it ended, with the reason if it was a fault.
    """

    def __init__(
        self,
        opened: Callable[[], object],
        answered: Callable[[Answer], object],
        lost: Callable[[Exception | None], object],
    ) -> None:
        self._opened, self._answered, self._lost = opened, answered, lost
        self._received = b""

    def send(self, request: bytes) -> None:
        """Send a request; the one before must have been answered."""
        self._transport.write(request)

    def close(self) -> None:
        """Close the connection without waiting for an answer."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        assert isinstance(transport, asyncio.Transport), "TCP has a duplex transport"
        self._transport = transport
        self._opened()

    def data_received(self, data: bytes) -> None:
        """Hand an answer on once it is whole."""
        self._received += data
        head_end = self._received.find(_END_OF_HEAD)
        if head_end < 0:
            return
        head = self._received[:head_end].lower()
        length = head[head.index(_LENGTH) + len(_LENGTH) :].split(b"\r\n", 1)[0]
        body_start = head_end + len(_END_OF_HEAD)
        if len(self._received) < body_start + int(length):
            return
        body, self._received = self._received[body_start:], b""
        self._answered(Answer(int(head[9:12]), head, body))

    def connection_lost(self, error: Exception | None) -> None:
        """See asyncio."""
        self._lost(error)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A closed loop."""

    host: str = "127.0.0.1"  # address of the service
    port: int  # port of the service
    path: str = PATH  # path that the requests go to
    headers: Mapping[str, str] = field(default_factory=dict)  # header fields besides the content type
    source: str | None = None  # local address of the connections; None leaves it to the system
    bodies: Sequence[str]  # JSON, sent in turn
    concurrency: int  # connections, each with one request at a time
    seconds: float | None  # how long; None is until `most` requests are answered
    warm_up_seconds: float = 0.0  # how long requests are sent before that without being counted
    most: int | None = None  # requests at most; None is no limit


@dataclass
class Busy:
    """What a closed loop saw."""

    # Which body, seconds until its answer, HTTP status
    samples: list[tuple[int, float, int]] = field(default_factory=list)
    answers: dict[int, set[bytes]] = field(default_factory=dict)  # the different answers to each body
    seconds: float = 0.0  # from the end of the warm-up until the last answer
    processor: float = 0.0  # seconds of the generator's computing


class _BusyClient:
    """Keeps one connection busy until the job is over, and then sets `done`."""

    def __init__(
        self, job: Job, requests: list[bytes], turns: "count[int]", begins: float, busy: Busy
    ) -> None:
        self.connection = Connection(self._send, self._answered, self._lost)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._until = begins + (math.inf if job.seconds is None else job.seconds)
        self._most = math.inf if job.most is None else job.most
        self._requests, self._turns, self._begins, self._busy = requests, turns, begins, busy
        self._started, self._which = 0.0, 0

    def _answered(self, answer: Answer) -> None:
        now = time.perf_counter()
        if now >= self._begins:
            self._busy.samples.append((self._which, now - self._started, answer.status))
        self._busy.answers.setdefault(self._which, set()).add(answer.body)
        self._send()

    def _lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server closed the connection"))

    def _send(self) -> None:
        now, turn = time.perf_counter(), next(self._turns)
        if now >= self._until or turn >= self._most:
            self.done.set_result(None)
            self.connection.close()
            return
        self._started, self._which = now, turn % len(self._requests)
        self.connection.send(self._requests[self._which])


async def keep_busy(job: Job) -> Busy:
    """Keep every connection of a closed loop busy.

    Raises:
        OSError: If a connection was lost.
    """
    requests = [message(job.host, body, job.headers, job.path) for body in job.bodies]
    begins = time.perf_counter() + job.warm_up_seconds
    busy, turns, loop = Busy(), count(), asyncio.get_running_loop()
    source = (job.source, 0) if job.source else None
    clients = [_BusyClient(job, requests, turns, begins, busy) for _ in range(job.concurrency)]
    for client in clients:
        await loop.create_connection(
            lambda client=client: client.connection, job.host, job.port, local_addr=source
        )
    await asyncio.gather(*(client.done for client in clients))
    busy.seconds, busy.processor = time.perf_counter() - begins, time.process_time()
    return busy


@dataclass(frozen=True, kw_only=True)
class Stream:
    """An open loop."""

    host: str  # address of the service
    port: int  # port of the service
    requests: Sequence[bytes]  # whole HTTP messages, sent in turn
    rate: float  # requests a second, on average
    seconds: float  # how long requests arrive
    patience: float = 60.0  # seconds that the last requests wait for their answers before their client leaves
    # Local addresses of the connections, in turn; None leaves it to the system
    sources: Sequence[str | None] = (None,)
    most_connections: int = 3000  # requests beyond these wait, on this side, for a free connection
    seed: int = 1  # seed of the times of arrival

    def arrivals(self) -> Iterator[float]:
        """When requests are to be sent, in seconds from the beginning."""
        draw = random.Random(self.seed)
        moment = draw.expovariate(self.rate)
        while moment < self.seconds:
            yield moment
            moment += draw.expovariate(self.rate)


class Sample(NamedTuple):
    """One answered request; times are in seconds from the beginning."""

    intended: float  # when it was meant to be sent
    sent: float  # when it was sent
    ended: float  # when its answer was whole
    status: int  # HTTP status
    is_orderly: bool  # whether it was no refusal, or a refusal with Retry-After


@dataclass
class Seen:
    """What an open loop saw."""

    samples: list[Sample] = field(default_factory=list)  # answered requests
    lost: int = 0  # requests whose connection ended or could not be made
    left: int = 0  # requests whose client left without an answer
    unsent: int = 0  # requests that had found no connection when the stream ended
    processor: float = 0.0  # seconds of the generator's computing

    def goodput(self, seconds: float) -> float:
        """Good answers a second that came while a stream of that many seconds lasted."""
        return sum(sample.status == 200 and sample.ended <= seconds for sample in self.samples) / seconds


async def send(stream: Stream) -> Seen:
    """Send a whole stream, and wait for the answers."""
    seen, computed = Seen(), time.process_time()
    pool = _Pool(stream, seen, time.perf_counter())
    with _without_collections():
        num_without_pause = 0
        for intended in stream.arrivals():
            delay = intended - pool.now()
            num_without_pause = 0 if delay > 0 else num_without_pause + 1
            if delay > 0 or num_without_pause % _AT_ONCE == 0:
                await asyncio.sleep(max(delay, 0.0))
            pool.ask(intended)
        await pool.settle(stream.patience)
    seen.processor = time.process_time() - computed
    return seen


@contextmanager
def _without_collections() -> Iterator[None]:
    """Turn the garbage collector off: nothing here makes cycles, and its pauses would show in latencies."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Pool:
    """Connections, the free ones among them, and requests that wait for one."""

    def __init__(self, stream: Stream, seen: Seen, began: float) -> None:
        self._stream, self.seen, self._began = stream, seen, began
        self.requests, self._sources = cycle(stream.requests), cycle(stream.sources)
        self.free: list[_Line] = []
        self.lines: set[_Line] = set()
        self.waiting: deque[float] = deque()
        self._connecting: set[asyncio.Task[None]] = set()

    def now(self) -> float:
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

    async def settle(self, patience: float) -> None:
        """Wait until every request that was sent is answered, and close the connections."""
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
    """One connection of an open loop, and the request that is on it."""

    def __init__(self, pool: _Pool) -> None:
        self.connection = Connection(self._opened, self._answered, self._lost)
        self._pool = pool
        self._sent: float | None = None
        self._intended = 0.0

    def ask(self, intended: float) -> None:
        """Send the next request."""
        self._intended, self._sent = intended, self._pool.now()
        self.connection.send(next(self._pool.requests))

    def leave(self) -> None:
        """Close the connection; a request that is on it stays without an answer."""
        if self._sent is not None:
            self._pool.seen.left += 1
            self._sent = None
        self.connection.close()

    def _opened(self) -> None:
        self._pool.lines.add(self)
        self._go_on()

    def _answered(self, answer: Answer) -> None:
        if self._sent is not None:
            is_orderly = answer.status not in REFUSALS or _RETRY_AFTER in answer.head
            sample = Sample(self._intended, self._sent, self._pool.now(), answer.status, is_orderly)
            self._pool.seen.samples.append(sample)
        self._sent = None
        if _CLOSE in answer.head:
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


def main() -> None:
    """Do one job."""
    busy = asyncio.run(keep_busy(Job(**json.loads(sys.stdin.readline()))))
    answers = {which: sorted(each.decode() for each in seen) for which, seen in busy.answers.items()}
    print(json.dumps({**vars(busy), "answers": answers}))


if __name__ == "__main__":
    main()
