"""Two ways to put a service under load, both cheap.

In a closed loop each connection sends its next request as soon as it has an answer. That measures capacity,
but asks less of a service the slower it is ("coordinated omission"). In an open loop the times of arrival are
drawn beforehand as a Poisson stream, and a latency counts from when its request was meant to be sent.

As a process, `python -m benchmarks.load.generator` reads a `ClosedLoop` as a line of JSON and writes its
result as another.
"""

import asyncio
import gc
import json
import math
import random
import selectors
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count, cycle
from pathlib import Path
from typing import NamedTuple, Self

REFUSALS = (429, 503)
COMMAND = (sys.executable, "-m", "benchmarks.load.generator")
"""Starts a process that does one `ClosedLoop`."""
_ROOT = Path(__file__).parents[2]
_HEAD = "POST /translate HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {length}\r\n\r\n"
_END_OF_HEAD, _LENGTH = b"\r\n\r\n", b"content-length:"
_RETRY_AFTER, _CLOSE = b"\r\nretry-after:", b"\r\nconnection: close"
_MOST_BYTES = 65_536
# After this many requests without a pause, answers get a turn.
_AT_ONCE = 32


def message(host: str, body: str, headers: Mapping[str, str]) -> bytes:
    """A whole HTTP request with a JSON body."""
    content = body.encode()
    fields = {"Content-Type": "application/json", **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return _HEAD.format(host=host, headers=lines, length=len(content)).encode() + content


class Answer(NamedTuple):
    """An HTTP answer: its status, its head in lower case, its content."""

    status: int
    head: bytes
    body: bytes


def answer_in(received: bytes) -> Answer | None:
    """The answer that a connection has received; None if it is not whole yet."""
    head_end = received.find(_END_OF_HEAD)
    if head_end < 0:
        return None
    head = received[:head_end].lower()
    length = int(head[head.index(_LENGTH) + len(_LENGTH) :].split(b"\r\n", 1)[0])
    body = received[head_end + len(_END_OF_HEAD) :]
    return Answer(int(head[9:12]), head, body) if len(body) >= length else None


class Connection(asyncio.Protocol):
    """A connection that is kept open, with one request at a time."""

    def __init__(self) -> None:
        self._received = b""
        self._answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(cls, host: str, port: int, source: str | None = None) -> Self:
        """Connect, from a local address if one is given; raises OSError."""
        address = (source, 0) if source else None
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, host, port, local_addr=address)
        return connection

    async def ask(self, request: bytes) -> Answer:
        """Send a request and wait for its answer; raises OSError if the connection ends before."""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        """Close the connection without waiting for an answer."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        assert isinstance(transport, asyncio.Transport), "TCP has a duplex transport"
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Hand an answer on once it is whole."""
        self._received += data
        answer = answer_in(self._received)
        if answer is None:
            return
        self._received = b""
        if _CLOSE in answer.head:
            self.close()
        if not self._answer.done():
            self._answer.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        """See asyncio."""
        if not self._answer.done():
            self._answer.set_exception(error or ConnectionError("the server closed the connection"))
            self._answer.exception()  # counts as retrieved, where no request waits for it


@dataclass(frozen=True, kw_only=True)
class ClosedLoop:
    """A closed loop."""

    host: str = "127.0.0.1"  # address of the service
    port: int  # port of the service
    headers: Mapping[str, str] = field(default_factory=dict)  # header fields other than the content type
    source: str | None = None  # local address of the connections; None leaves it to the system
    bodies: Sequence[str]  # JSON, sent in turn
    concurrency: int  # connections, each with one request at a time
    seconds: float | None  # how long; None is until `most` requests are answered
    warm_up_seconds: float = 0.0  # how long requests are sent before that without being counted
    most: int | None = None  # requests at most; None is no limit


@dataclass
class ClosedLoopResult:
    """What a closed loop saw."""

    # Which body, seconds until its answer, HTTP status
    samples: list[tuple[int, float, int]] = field(default_factory=list)
    answers: dict[int, set[str]] = field(default_factory=dict)  # the different answers to each body
    seconds: float = 0.0  # from the end of the warm-up until the last answer


async def run_closed_loop(job: ClosedLoop) -> ClosedLoopResult:
    """Keep every connection of a closed loop busy.

    Raises:
        OSError: If a connection was lost.
    """
    requests = [message(job.host, body, job.headers) for body in job.bodies]
    busy, turns = ClosedLoopResult(), count()
    most = math.inf if job.most is None else job.most
    connections = [await Connection.open(job.host, job.port, job.source) for _ in range(job.concurrency)]
    begins = time.perf_counter() + job.warm_up_seconds
    until = begins + (math.inf if job.seconds is None else job.seconds)

    async def ask_on(connection: Connection) -> None:
        while (start := time.perf_counter()) < until and (turn := next(turns)) < most:
            which = turn % len(requests)
            answer = await connection.ask(requests[which])
            now = time.perf_counter()
            if now >= begins:
                busy.samples.append((which, now - start, answer.status))
            busy.answers.setdefault(which, set()).add(answer.body.decode())
        connection.close()

    await asyncio.gather(*map(ask_on, connections))
    busy.seconds = time.perf_counter() - begins
    return busy


def run_closed_loop_apart(job: ClosedLoop) -> ClosedLoopResult:
    """Do a closed loop in a process of its own.

    Raises:
        RuntimeError: If the process fails, as it does when a connection is lost.
    """
    order = json.dumps(asdict(job)) + "\n"
    outcome = subprocess.run(COMMAND, cwd=_ROOT, input=order, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise RuntimeError(f"no load on port {job.port}: {outcome.stderr.strip().splitlines()[-1]}")
    seen = json.loads(outcome.stdout)
    seen["answers"] = {int(which): set(answers) for which, answers in seen["answers"].items()}
    return ClosedLoopResult(**seen)


@dataclass(frozen=True, kw_only=True)
class OpenLoop:
    """An open loop."""

    host: str  # address of the service
    port: int  # port of the service
    requests: Sequence[bytes]  # whole HTTP messages, sent in turn
    rate: float  # requests a second, on average
    seconds: float  # how long requests arrive
    patience: float = 60.0  # seconds that the last requests wait for their answers before their client leaves
    source: str | None = None  # local address of the connections; None leaves it to the system
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
class OpenLoopResult:
    """The results of an open loop."""

    samples: list[Sample] = field(default_factory=list)  # answered requests
    lost: int = 0  # requests whose connection ended or could not be made
    left: int = 0  # requests whose client left without an answer
    unsent: int = 0  # requests that had found no connection when the stream ended

    def goodput(self, seconds: float) -> float:
        """Good answers a second that came while a stream of that many seconds lasted."""
        return sum(sample.status == 200 and sample.ended <= seconds for sample in self.samples) / seconds


async def run_open_loop(stream: OpenLoop) -> OpenLoopResult:
    """Send a whole stream from a thread, and wait for the answers."""
    return await asyncio.to_thread(_Sender(stream).run)


@dataclass(eq=False)
class _Wire:
    """A connection of a sender."""

    socket: socket.socket
    received: bytes = b""
    intended: float = 0.0  # when the present request was meant to be sent
    sent: float | None = None  # when it was sent; None while the connection is being made
    is_open: bool = True


class _Sender:
    """Sends the requests of an open loop on free connections or new ones.

    It uses sockets without asyncio, whose part of the processor time would be taken from the service. A
    request must fit into the buffer of a socket.
    """

    def __init__(self, stream: OpenLoop) -> None:
        self._seen = OpenLoopResult()
        self._stream, self._requests = stream, cycle(stream.requests)
        self._selector = selectors.DefaultSelector()
        self._free: list[_Wire] = []
        self._busy: set[_Wire] = set()
        # When requests that wait for a connection were meant to be sent.
        self._waiting: deque[float] = deque()
        self._num_connections = 0
        self._began = time.perf_counter()

    def run(self) -> OpenLoopResult:
        """Send all requests, and wait for the answers; blocks."""
        was_enabled = gc.isenabled()
        gc.disable()  # its pauses would show in latencies
        try:
            self._send_all()
            self._finish()
        finally:
            for key in list(self._selector.get_map().values()):
                self._close(key.data)
            self._selector.close()
            if was_enabled:
                gc.enable()
        return self._seen

    def _now(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self._began

    def _send_all(self) -> None:
        for number, intended in enumerate(self._stream.arrivals()):
            while (delay := intended - self._now()) > 0:
                self._receive(delay)
            if number % _AT_ONCE == 0:
                self._receive(0.0)
            self._start(intended)

    def _finish(self) -> None:
        """Drop requests without a connection, and wait for the other answers."""
        self._receive(0.0)
        self._seen.unsent += len(self._waiting)
        self._waiting.clear()
        until = self._now() + self._stream.patience
        while self._busy and (left := until - self._now()) > 0:
            self._receive(left)
        self._seen.left += sum(wire.sent is not None for wire in self._busy)
        self._seen.unsent += sum(wire.sent is None for wire in self._busy)

    def _start(self, intended: float) -> None:
        """Send the next request as soon as there is a connection for it."""
        while self._free:
            if (wire := self._free.pop()).is_open:
                self._busy.add(wire)
                wire.intended = intended
                self._send(wire)
                return
        if self._num_connections == self._stream.most_connections:
            self._waiting.append(intended)
        else:
            self._connect(intended)

    def _connect(self, intended: float) -> None:
        self._num_connections += 1
        wire = _Wire(socket.socket(), intended=intended)
        self._busy.add(wire)
        wire.socket.setblocking(False)
        if self._stream.source is not None:
            wire.socket.bind((self._stream.source, 0))
        # Whether that succeeds is known when the socket can be written to.
        wire.socket.connect_ex((self._stream.host, self._stream.port))
        self._selector.register(wire.socket, selectors.EVENT_WRITE, wire)

    def _send(self, wire: _Wire) -> None:
        wire.sent = self._now()
        try:
            wire.socket.sendall(next(self._requests))
        except OSError:
            self._lose(wire)

    def _receive(self, seconds: float) -> None:
        """Wait at most so long, and use what has arrived."""
        for key, _ in self._selector.select(seconds):
            wire: _Wire = key.data
            if not wire.is_open:
                continue  # it ended while those before it were used
            if wire.sent is not None:
                self._read(wire)
            elif wire.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._lose(wire)
            else:
                self._selector.modify(wire.socket, selectors.EVENT_READ, wire)
                self._send(wire)

    def _read(self, wire: _Wire) -> None:
        try:
            data = wire.socket.recv(_MOST_BYTES)
        except OSError:
            data = b""
        if not data:
            self._lose(wire)
            return
        wire.received += data
        answer = answer_in(wire.received)
        if answer is None or wire.sent is None:
            return
        wire.received = b""
        is_orderly = answer.status not in REFUSALS or _RETRY_AFTER in answer.head
        self._seen.samples.append(Sample(wire.intended, wire.sent, self._now(), answer.status, is_orderly))
        self._busy.discard(wire)
        if _CLOSE in answer.head:
            self._close(wire)
        else:
            self._free.append(wire)
        self._go_on()

    def _lose(self, wire: _Wire) -> None:
        """Close a connection that has ended, and its request with it."""
        self._seen.lost += wire in self._busy
        self._busy.discard(wire)
        self._close(wire)
        self._go_on()

    def _go_on(self) -> None:
        if self._waiting:
            self._start(self._waiting.popleft())

    def _close(self, wire: _Wire) -> None:
        wire.is_open = False
        self._num_connections -= 1
        self._selector.unregister(wire.socket)
        wire.socket.close()


def main() -> None:
    """Do one job."""
    busy = asyncio.run(run_closed_loop(ClosedLoop(**json.loads(sys.stdin.readline()))))
    answers = {which: sorted(seen) for which, seen in busy.answers.items()}
    print(json.dumps({**vars(busy), "answers": answers}))


if __name__ == "__main__":
    main()
