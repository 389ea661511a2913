"""A stream that does not wait for answers."""

import asyncio
import statistics
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from benchmarks.load.generator import (
    ClosedLoop,
    ClosedLoopResult,
    OpenLoop,
    OpenLoopResult,
    run_closed_loop,
    run_open_loop,
)

REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
STREAM = OpenLoop(host="127.0.0.1", port=0, requests=[REQUEST], rate=200, seconds=0.5, patience=60)


def answer(status: int, field: str = "") -> bytes:
    return f"HTTP/1.1 {status} x\r\nContent-Length: 2\r\n{field}\r\nok".encode()


class Server(asyncio.Protocol):
    """Gives each request the same reply after a while, or hangs up."""

    def __init__(self, reply: bytes | None, seconds: float) -> None:
        self._reply, self._seconds = reply, seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        asyncio.get_running_loop().call_later(self._seconds, self._answer)

    def _answer(self) -> None:
        if self._reply is None:
            self._transport.close()
        else:
            self._transport.write(self._reply)


def sent_to(reply: bytes | None, *, seconds: float = 0.0, **changes: Any) -> tuple[OpenLoopResult, int]:
    """What comes of a stream to such a server, and how many requests it had."""

    async def run() -> tuple[OpenLoopResult, int]:
        server = await asyncio.get_running_loop().create_server(
            lambda: Server(reply, seconds), "127.0.0.1", 0
        )
        async with server:
            stream = replace(STREAM, port=server.sockets[0].getsockname()[1], **changes)
            seen = await asyncio.to_thread(run_open_loop, stream)
            return seen, len(list(stream.arrivals()))

    return asyncio.run(run())


def kept_busy(reply: bytes | None, job: ClosedLoop) -> ClosedLoopResult:
    """What a closed loop sees of such a server."""

    async def run() -> ClosedLoopResult:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Server(reply, 0.0), "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await asyncio.to_thread(run_closed_loop, replace(job, port=port))

    return asyncio.run(run())


CLOSED = ClosedLoop(port=0, bodies=["{}", "[]"], concurrency=3, seconds=None, most=7)


def test_a_closed_loop_sends_its_bodies_in_turn_and_ends_by_their_number() -> None:
    busy = kept_busy(answer(200), CLOSED)
    assert sorted(which for which, _, _ in busy.samples) == [0, 0, 0, 0, 1, 1, 1]
    assert busy.answers == {0: {"ok"}, 1: {"ok"}}
    assert 0 < max(seconds for _, seconds, _ in busy.samples) <= busy.seconds


def test_a_closed_loop_ends_by_its_time_and_does_not_count_the_warm_up() -> None:
    busy = kept_busy(answer(200), replace(CLOSED, most=None, seconds=0.1, warm_up_seconds=0.1))
    assert 0.1 <= busy.seconds < 5
    assert sum(seconds for _, seconds, _ in busy.samples) < 3 * (busy.seconds + 0.1)


def test_a_closed_loop_fails_when_a_connection_is_lost() -> None:
    with pytest.raises(ConnectionError):
        kept_busy(None, CLOSED)


def test_arrivals_are_a_poisson_stream_and_the_same_every_time() -> None:
    stream = replace(STREAM, rate=1000, seconds=20)
    arrivals = list(stream.arrivals())
    gaps = [later - earlier for earlier, later in pairwise(arrivals)]
    assert statistics.mean(gaps) == pytest.approx(1e-3, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(1e-3, rel=0.05)
    assert arrivals == list(stream.arrivals())


def test_every_request_is_sent_and_its_answer_noted() -> None:
    seen, count = sent_to(answer(200))
    assert [sample.status for sample in seen.samples] == [200] * count
    assert all(sample.intended <= sample.sent <= sample.ended for sample in seen.samples)
    assert (seen.lost, seen.left, seen.unsent) == (0, 0, 0)


def test_a_slow_service_is_asked_no_less() -> None:
    seen, count = sent_to(answer(200), seconds=5)
    assert len(seen.samples) == count
    assert max(sample.sent for sample in seen.samples) < min(sample.ended for sample in seen.samples)


def test_a_latency_counts_from_when_the_request_was_meant_to_be_sent() -> None:
    seen, count = sent_to(answer(200), seconds=0.05, most_connections=1, patience=60)
    assert len(seen.samples) + seen.unsent == count
    assert seen.unsent > 0
    assert max(sample.sent - sample.intended for sample in seen.samples) > 0.1


def test_a_refusal_is_orderly_only_if_it_says_when_to_come_again() -> None:
    assert not any(sample.is_orderly for sample in sent_to(answer(503))[0].samples)
    assert all(sample.is_orderly for sample in sent_to(answer(503, "Retry-After: 1\r\n"))[0].samples)


def test_who_is_not_answered_in_time_leaves() -> None:
    seen, count = sent_to(answer(200), seconds=10, patience=0.3)
    assert (len(seen.samples), seen.left) == (0, count)


def test_a_connection_that_ends_loses_its_request_and_is_replaced() -> None:
    seen, count = sent_to(None)
    assert (len(seen.samples), seen.lost) == (0, count)
    seen, count = sent_to(answer(200, "Connection: close\r\n"))
    assert (len(seen.samples), seen.lost) == (count, 0)


def test_where_nobody_listens_all_is_lost() -> None:
    seen = run_open_loop(replace(STREAM, port=1))
    assert seen.lost + seen.unsent == len(list(STREAM.arrivals()))
