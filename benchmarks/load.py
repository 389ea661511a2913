"""The load generator, a process of its own: so many connections, each sending its next request at once.

It reads a job from standard input and answers with what it saw, both as a line of JSON:

    {"port", "path", "bodies": ["…"], "concurrency", "seconds", "warm_up_seconds", "most"}
    {"seconds", "processor", "samples": [[which body, seconds, status], …], "answers": {"status body": …}}
"""

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TypedDict

_HEAD = (
    "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    "Content-Length: {length}\r\n\r\n"
)
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length:"


class Job(TypedDict):
    """What to send, where to, and for how long."""

    port: int
    path: str
    bodies: list[str]
    concurrency: int
    seconds: float
    warm_up_seconds: float
    most: int | None


@dataclass
class Tally:
    """What all connections saw together, and when they are to stop.

    Attributes:
        most: Requests to send at most; None is no limit.
        until: When to send no more, by the monotonic clock.
        counts_from: Before this, requests only warm the server up.
        samples: Which body, seconds until its answer, status.
        answers: Each body's answers, all different ones.
    """

    most: int | None
    until: float
    counts_from: float
    samples: list[tuple[int, float, int]] = field(default_factory=list)
    answers: dict[int, set[bytes]] = field(default_factory=dict)


class Client(asyncio.Protocol):
    """One connection that is kept open.

    Args:
        requests: Whole HTTP messages.
        turns: Which of them comes next, shared by all connections.
        tally: Where to note answers.
        done: Set when there is nothing more to send, or the connection is lost.
    """

    def __init__(
        self, requests: list[bytes], turns: "count[int]", tally: Tally, done: "asyncio.Future[None]"
    ) -> None:
        self._requests, self._turns, self._tally, self._done = requests, turns, tally, done
        self._received = b""
        self._started, self._which = 0.0, 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        """Note an answer once it is whole, and send the next request."""
        self._received += data
        head_end = self._received.find(_END_OF_HEAD)
        if head_end < 0:
            return
        body_start = head_end + len(_END_OF_HEAD)
        if len(self._received) < body_start + _content_length(self._received[:head_end]):
            return
        self._note(int(self._received[9:12]), self._received[body_start:])
        self._received = b""
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        """Whoever waits must not wait for ever."""
        if self._done.done():
            return
        if error is None:
            error = ConnectionError("the server closed the connection")
        self._done.set_exception(error)

    def _note(self, status: int, body: bytes) -> None:
        now = time.perf_counter()
        if now >= self._tally.counts_from:
            self._tally.samples.append((self._which, now - self._started, status))
        self._tally.answers.setdefault(self._which, set()).add(body)

    def _send(self) -> None:
        now = time.perf_counter()
        turn, most = next(self._turns), self._tally.most
        if now >= self._tally.until or (most is not None and turn >= most):
            self._done.set_result(None)
            self._transport.close()
            return
        self._started, self._which = now, turn % len(self._requests)
        self._transport.write(self._requests[self._which])


def _content_length(head: bytes) -> int:
    start = head.lower().index(_LENGTH) + len(_LENGTH)
    return int(head[start:].split(b"\r\n", 1)[0])


async def load(job: Job) -> Tally:
    """Keep every connection busy for as long as the job says."""
    encoded = [body.encode() for body in job["bodies"]]
    requests = [_HEAD.format(path=job["path"], length=len(body)).encode() + body for body in encoded]
    begins = time.perf_counter() + job["warm_up_seconds"]
    tally = Tally(most=job["most"], until=begins + job["seconds"], counts_from=begins)
    loop, turns = asyncio.get_running_loop(), count()
    waits: list[asyncio.Future[None]] = [loop.create_future() for _ in range(job["concurrency"])]
    for done in waits:
        client = Client(requests, turns, tally, done)
        await loop.create_connection(partial(_same, client), "127.0.0.1", job["port"])
    await asyncio.gather(*waits)
    return tally


def _same(client: Client) -> Client:
    return client


def main() -> None:
    """Do one job."""
    job: Job = json.loads(sys.stdin.readline())
    tally = asyncio.run(load(job))
    answers = {which: sorted(each.decode() for each in seen) for which, seen in tally.answers.items()}
    report = {
        "seconds": job["seconds"],
        "processor": time.process_time(),
        "samples": tally.samples,
        "answers": answers,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
