"""Puts a service under load, in one of two ways.

In a closed loop each connection sends its next request as soon as it has an answer. That measures capacity,
but asks less of a service the slower it is ("coordinated omission"). In an open loop the times of arrival are
drawn beforehand as a Poisson stream, and a latency counts from when its request was due.

Sockets are used without asyncio, whose part of the processor time would be taken from the service. As a
process, `python -m benchmarks.load.generator` reads a `Load` as a line of JSON and writes what it saw as
another.
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
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import NamedTuple

REFUSALS = (429, 503)
_ROOT = Path(__file__).parents[2]
_END_OF_HEAD, _LENGTH = b"\r\n\r\n", b"content-length:"
_RETRY_AFTER, _CLOSE = b"\r\nretry-after:", b"\r\nconnection: close"
_MOST_BYTES = 65_536
# After this many requests without a pause, answers get a turn.
_AT_ONCE = 32
_LONGEST_PAUSE = 60.0


@dataclass(frozen=True, kw_only=True)
class Client:
    """A client of a service, told apart by its API key or, with a local address to come from, by that."""

    host: str = "127.0.0.1"  # address of the service
    port: int  # port of the service
    key: str | None = None
    address: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Header fields that identify the client."""
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def message(self, body: str) -> bytes:
        """A whole HTTP request for a translation, with a JSON body."""
        content = body.encode()
        fields = {"Host": self.host, "Content-Type": "application/json", **self.headers}
        fields["Content-Length"] = str(len(content))
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"POST /translate HTTP/1.1\r\n{lines}\r\n".encode() + content


@dataclass(frozen=True, kw_only=True)
class Load:
    """What a client sends; the loop is open if there is a rate, and closed otherwise."""

    client: Client
    bodies: Sequence[str]  # JSON, sent in turn
    connections: int = 3000  # at most; in an open loop, requests beyond these wait for a free one
    seconds: float = math.inf  # how long requests are sent
    rate: float | None = None  # arrivals a second, on average
    most: int | None = None  # of a closed loop: requests at most
    warm_up_seconds: float = 0.0  # of a closed loop: time before that, whose answers do not count
    patience: float = 60.0  # seconds that the last requests wait for their answers before their client leaves
    seed: int = 1  # seed of the times of arrival

    def arrivals(self) -> Iterator[float]:
        """When the requests of an open loop are due, in seconds from the beginning."""
        draw, rate = random.Random(self.seed), self.rate or 0.0
        moment = draw.expovariate(rate)
        while moment < self.seconds:
            yield moment
            moment += draw.expovariate(rate)


class Sample(NamedTuple):
    """One answered request; times are in seconds from the beginning, or from the end of the warm-up."""

    which: int  # which of the bodies was sent
    due: float  # when it was to be sent; in a closed loop, when it was
    sent: float  # when it was sent
    ended: float  # when its answer was whole
    status: int  # HTTP status
    is_orderly: bool  # whether it was no refusal, or a refusal with Retry-After

    @property
    def seconds(self) -> float:
        """From when the request was due until its answer."""
        return self.ended - self.due


@dataclass
class Seen:
    """What came of a load."""

    samples: list[Sample] = field(default_factory=list)  # answered requests
    answers: dict[int, set[str]] = field(default_factory=dict)  # the different good answers to each body
    seconds: float = 0.0  # until the last answer
    lost: int = 0  # requests whose connection ended or could not be made
    left: int = 0  # requests whose client left without an answer
    unsent: int = 0  # requests that had found no connection when the stream ended

    def goodput(self, seconds: float) -> float:
        """Good answers a second that came within so many seconds."""
        return sum(sample.status == 200 and sample.ended <= seconds for sample in self.samples) / seconds


def run(load: Load) -> Seen:
    """Send all requests and wait for the answers.

    Raises:
        ConnectionError: If the loop is closed and a connection was lost.
    """
    return _Generator(load).run()


def run_apart(load: Load) -> Seen:
    """Do a load in a process of its own.

    Raises:
        RuntimeError: If the process fails, as it does when a closed loop loses a connection.
    """
    command = [sys.executable, "-m", "benchmarks.load.generator"]
    line = json.dumps(asdict(load)) + "\n"
    outcome = subprocess.run(command, cwd=_ROOT, input=line, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise RuntimeError(f"no load on port {load.client.port}: {outcome.stderr.strip().splitlines()[-1]}")
    seen = json.loads(outcome.stdout)
    seen["samples"] = [Sample(*sample) for sample in seen["samples"]]
    seen["answers"] = {int(which): set(answers) for which, answers in seen["answers"].items()}
    return Seen(**seen)


@dataclass(eq=False)
class _Wire:
    """A connection that is kept open, with one request at a time."""

    socket: socket.socket
    due: float  # when its present request was to be sent
    sent: float = 0.0  # when it was sent
    which: int = 0  # which of the bodies it is
    received: bytes = b""
    is_connected: bool = False
    is_open: bool = True


class _Answer(NamedTuple):
    status: int
    head: bytes  # in lower case
    body: bytes


def _answer_in(received: bytes) -> _Answer | None:
    """The answer that a connection has received; None if it is not whole yet."""
    head_end = received.find(_END_OF_HEAD)
    if head_end < 0:
        return None
    head = received[:head_end].lower()
    length = int(head[head.index(_LENGTH) + len(_LENGTH) :].split(b"\r\n", 1)[0])
    body = received[head_end + len(_END_OF_HEAD) :]
    return _Answer(int(head[9:12]), head, body) if len(body) >= length else None


class _Generator:
    """Sends requests on free connections or new ones; a request must fit into the buffer of a socket."""

    def __init__(self, load: Load) -> None:
        self._load, self._seen = load, Seen()
        self._messages = [load.client.message(body) for body in load.bodies]
        self._turns = count()
        self._num_started = 0
        self._selector = selectors.DefaultSelector()
        self._free: list[_Wire] = []
        self._busy: set[_Wire] = set()
        # When the requests of an open loop that wait for a connection were due.
        self._waiting: deque[float] = deque()
        self._num_connections = 0
        self._began = time.perf_counter() + load.warm_up_seconds

    def run(self) -> Seen:
        """Send all requests, and wait for the answers; blocks."""
        was_enabled = gc.isenabled()
        gc.disable()  # its pauses would show in latencies
        try:
            if self._load.rate is None:
                for _ in range(self._load.connections):
                    self._go_on()
            else:
                self._send_stream()
            self._finish()
        finally:
            for key in list(self._selector.get_map().values()):
                self._close(key.data)
            self._selector.close()
            if was_enabled:
                gc.enable()
        return self._seen

    def _now(self) -> float:
        """Seconds since the beginning, below 0 in the warm-up."""
        return time.perf_counter() - self._began

    def _send_stream(self) -> None:
        for number, due in enumerate(self._load.arrivals()):
            while (delay := due - self._now()) > 0:
                self._receive(delay)
            if number % _AT_ONCE == 0:
                self._receive(0.0)
            self._start(due)
        self._receive(0.0)
        self._seen.unsent += len(self._waiting)
        self._waiting.clear()

    def _finish(self) -> None:
        """Wait for the answers; a closed loop goes on with each of them while it lasts."""
        until = self._load.seconds + self._load.patience
        while self._busy and (left := until - self._now()) > 0:
            self._receive(min(left, _LONGEST_PAUSE))
        self._seen.seconds = self._now()
        self._seen.left += sum(wire.is_connected for wire in self._busy)
        self._seen.unsent += sum(not wire.is_connected for wire in self._busy)

    def _go_on(self) -> None:
        """Send the next request on a connection that has become free."""
        if self._load.rate is not None:
            if self._waiting:
                self._start(self._waiting.popleft())
        elif self._now() < self._load.seconds and self._num_started != self._load.most:
            self._num_started += 1
            self._start(self._now())

    def _start(self, due: float) -> None:
        """Send the next request as soon as there is a connection for it."""
        while self._free:
            if (wire := self._free.pop()).is_open:
                self._busy.add(wire)
                wire.due = due
                self._send(wire)
                return
        if self._num_connections == self._load.connections:
            self._waiting.append(due)
        else:
            self._connect(due)

    def _connect(self, due: float) -> None:
        self._num_connections += 1
        wire = _Wire(socket.socket(), due)
        self._busy.add(wire)
        wire.socket.setblocking(False)
        client = self._load.client
        if client.address is not None:
            wire.socket.bind((client.address, 0))
        # Whether that succeeds is known when the socket can be written to.
        wire.socket.connect_ex((client.host, client.port))
        self._selector.register(wire.socket, selectors.EVENT_WRITE, wire)

    def _send(self, wire: _Wire) -> None:
        wire.which, wire.sent = next(self._turns) % len(self._messages), self._now()
        if self._load.rate is None:
            wire.due = wire.sent
        try:
            wire.socket.sendall(self._messages[wire.which])
        except OSError as error:
            self._lose(wire, error)

    def _receive(self, seconds: float) -> None:
        """Wait at most so long, and use what has arrived."""
        for key, _ in self._selector.select(seconds):
            wire: _Wire = key.data
            if not wire.is_open:
                continue  # it ended while those before it were used
            if wire.is_connected:
                self._read(wire)
            elif status := wire.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._lose(wire, ConnectionError(status, "no connection"))
            else:
                wire.is_connected = True
                self._selector.modify(wire.socket, selectors.EVENT_READ, wire)
                self._send(wire)

    def _read(self, wire: _Wire) -> None:
        try:
            if not (data := wire.socket.recv(_MOST_BYTES)):
                raise ConnectionError("the server closed the connection")
        except OSError as error:
            self._lose(wire, error)
            return
        wire.received += data
        if answer := _answer_in(wire.received):
            wire.received = b""
            self._note(wire, answer)
            self._busy.discard(wire)
            if _CLOSE in answer.head:
                self._close(wire)
            else:
                self._free.append(wire)
            self._go_on()

    def _note(self, wire: _Wire, answer: _Answer) -> None:
        if (now := self._now()) >= 0:
            is_orderly = answer.status not in REFUSALS or _RETRY_AFTER in answer.head
            self._seen.samples.append(Sample(wire.which, wire.due, wire.sent, now, answer.status, is_orderly))
        if answer.status == 200:
            self._seen.answers.setdefault(wire.which, set()).add(answer.body.decode())

    def _lose(self, wire: _Wire, error: OSError) -> None:
        """Close a connection that has ended, and its request with it."""
        if self._load.rate is None:
            raise ConnectionError(f"a connection was lost: {error}") from error
        self._seen.lost += wire in self._busy
        self._busy.discard(wire)
        self._close(wire)
        self._go_on()

    def _close(self, wire: _Wire) -> None:
        wire.is_open = False
        self._num_connections -= 1
        self._selector.unregister(wire.socket)
        wire.socket.close()


def main() -> None:
    """Do one load."""
    given = json.loads(sys.stdin.readline())
    seen = run(Load(**given | {"client": Client(**given["client"])}))
    answers = {which: sorted(each) for which, each in seen.answers.items()}
    print(json.dumps({**vars(seen), "answers": answers}))


if __name__ == "__main__":
    main()
