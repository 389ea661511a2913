"""Two ways to put a service under load.

Both use sockets without asyncio, whose part of the processor time would be taken from the service.

In a closed loop each connection sends its next request as soon as it has an answer. That measures capacity,
but asks less of a service the slower it is ("coordinated omission"). In an open loop the times of arrival are
drawn beforehand as a Poisson stream, and a latency counts from when its request was meant to be sent.

As a process, `python -m benchmarks.load.generator` reads a `ClosedLoop` as a line of JSON and writes its
result as another.
"""

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
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import count, cycle
from pathlib import Path
from typing import NamedTuple

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


@dataclass(eq=False)
class _Wire:
    """A connection that is kept open, with one request at a time."""

    socket: socket.socket
    received: bytes = b""
    which: int = 0  # which of the bodies of a closed loop was sent
    intended: float = 0.0  # when the present request of an open loop was meant to be sent
    sent: float = 0.0  # when it was sent
    is_connected: bool = True
    is_open: bool = True

    def receive(self) -> Answer | None:
        """Read what has arrived; returns the answer once it is whole.

        Raises:
            OSError: If the connection has ended.
        """
        data = self.socket.recv(_MOST_BYTES)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.received += data
        answer = answer_in(self.received)
        if answer is not None:
            self.received = b""
        return answer


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


def run_closed_loop(job: ClosedLoop) -> ClosedLoopResult:
    """Keep every connection of a closed loop busy.

    Raises:
        OSError: If a connection was lost.
    """
    requests = [message(job.host, body, job.headers) for body in job.bodies]
    seen, turns = ClosedLoopResult(), count()
    most = math.inf if job.most is None else job.most
    with selectors.DefaultSelector() as selector, ExitStack() as connected:
        source = (job.source, 0) if job.source else None
        connections = [
            connected.enter_context(socket.create_connection((job.host, job.port), source_address=source))
            for _ in range(job.concurrency)
        ]
        begins = time.perf_counter() + job.warm_up_seconds
        until = begins + (math.inf if job.seconds is None else job.seconds)

        def ask_next(wire: _Wire) -> None:
            if (now := time.perf_counter()) < until and (turn := next(turns)) < most:
                wire.which, wire.sent = turn % len(requests), now
                wire.socket.sendall(requests[wire.which])
            else:
                selector.unregister(wire.socket)

        for connection in connections:
            wire = _Wire(connection)
            selector.register(connection, selectors.EVENT_READ, wire)
            ask_next(wire)
        while selector.get_map():
            for key, _ in selector.select():
                wire = key.data
                if (answer := wire.receive()) is None:
                    continue
                if (now := time.perf_counter()) >= begins:
                    seen.samples.append((wire.which, now - wire.sent, answer.status))
                seen.answers.setdefault(wire.which, set()).add(answer.body.decode())
                ask_next(wire)
        seen.seconds = time.perf_counter() - begins
    return seen


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


def run_open_loop(stream: OpenLoop) -> OpenLoopResult:
    """Send a whole stream, and wait for the answers."""
    return _Sender(stream).run()


class _Sender:
    """Sends the requests of an open loop on free connections or new ones.

    A request must fit into the buffer of a socket.
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
        self._seen.left += sum(wire.is_connected for wire in self._busy)
        self._seen.unsent += sum(not wire.is_connected for wire in self._busy)

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
        wire = _Wire(socket.socket(), intended=intended, is_connected=False)
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
            if wire.is_connected:
                self._read(wire)
            elif wire.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._lose(wire)
            else:
                wire.is_connected = True
                self._selector.modify(wire.socket, selectors.EVENT_READ, wire)
                self._send(wire)

    def _read(self, wire: _Wire) -> None:
        try:
            answer = wire.receive()
        except OSError:
            self._lose(wire)
            return
        if answer is None:
            return
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
    seen = run_closed_loop(ClosedLoop(**json.loads(sys.stdin.readline())))
    answers = {which: sorted(each) for which, each in seen.answers.items()}
    print(json.dumps({**vars(seen), "answers": answers}))


if __name__ == "__main__":
    main()
