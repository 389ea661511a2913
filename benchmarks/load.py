"""The load generator, a process of its own: so many connections, each sending its next request at once.

It reads a job from standard input and answers with what it saw, both as a line of JSON:

    {"host", "port", "path", "headers": {}, "source", "bodies": ["…"], "concurrency", "seconds",
     "warm_up_seconds", "most"}
    {"seconds", "processor", "samples": [[which body, seconds, status], …], "answers": {which body: ["…"]}}
"""

import asyncio
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NotRequired, TypedDict

from benchmarks.connection import Answer, Connection, message


class Job(TypedDict):
    """What to send, where to, and for how long.

    Without a host it is this machine; without a source address it is the one that the system takes; without
    seconds, it is until `most` requests are answered.
    """

    host: NotRequired[str]
    port: int
    path: str
    headers: NotRequired[Mapping[str, str]]
    source: NotRequired[str | None]
    bodies: Sequence[str]
    concurrency: int
    seconds: float | None
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
        seconds: From `counts_from` until the last answer.
    """

    most: int | None
    until: float
    counts_from: float
    samples: list[tuple[int, float, int]] = field(default_factory=list)
    answers: dict[int, set[bytes]] = field(default_factory=dict)
    seconds: float = 0.0


class Client:
    """Keeps one connection busy.

    Args:
        requests: Whole HTTP messages.
        turns: Which of them comes next, shared by all connections.
        tally: Where to note answers.
        done: Set when there is nothing more to send, or the connection is lost.
    """

    def __init__(
        self, requests: list[bytes], turns: "count[int]", tally: Tally, done: "asyncio.Future[None]"
    ) -> None:
        self.connection = Connection(self._send, self._answered, self._lost)
        self._requests, self._turns, self._tally, self._done = requests, turns, tally, done
        self._started, self._which = 0.0, 0

    def _answered(self, answer: Answer) -> None:
        now = time.perf_counter()
        if now >= self._tally.counts_from:
            self._tally.samples.append((self._which, now - self._started, answer.status))
        self._tally.answers.setdefault(self._which, set()).add(answer.body)
        self._send()

    def _lost(self, error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(error or ConnectionError("the server closed the connection"))

    def _send(self) -> None:
        now = time.perf_counter()
        turn, most = next(self._turns), self._tally.most
        if now >= self._tally.until or (most is not None and turn >= most):
            self._done.set_result(None)
            self.connection.close()
            return
        self._started, self._which = now, turn % len(self._requests)
        self.connection.send(self._requests[self._which])


async def load(job: Job) -> Tally:
    """Keep every connection busy for as long as the job says."""
    host = job.get("host", "127.0.0.1")
    requests = [message(host, job["path"], body, job.get("headers")) for body in job["bodies"]]
    begins = time.perf_counter() + job["warm_up_seconds"]
    seconds = math.inf if job["seconds"] is None else job["seconds"]
    tally = Tally(most=job["most"], until=begins + seconds, counts_from=begins)
    loop, turns = asyncio.get_running_loop(), count()
    waits: list[asyncio.Future[None]] = [loop.create_future() for _ in range(job["concurrency"])]
    source = (address, 0) if (address := job.get("source")) else None
    for done in waits:
        client = Client(requests, turns, tally, done)
        await loop.create_connection(
            lambda client=client: client.connection, host, job["port"], local_addr=source
        )
    await asyncio.gather(*waits)
    tally.seconds = time.perf_counter() - begins
    return tally


def main() -> None:
    """Do one job."""
    job: Job = json.loads(sys.stdin.readline())
    tally = asyncio.run(load(job))
    answers = {which: sorted(each.decode() for each in seen) for which, seen in tally.answers.items()}
    report = {
        "seconds": tally.seconds,
        "processor": time.process_time(),
        "samples": tally.samples,
        "answers": answers,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
