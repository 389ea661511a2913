"""Loads that wait for answers, and streams that do not."""

import asyncio
import statistics
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from benchmarks.load.generator import Client, Load, Seen, run

STREAM = Load(client=Client(port=1), bodies=[""], rate=200, seconds=0.5)
CLOSED = Load(client=Client(port=1), bodies=["{}", "[]"], connections=3, most=7)


def answer(status: int, field: str = "") -> bytes:
    return f"HTTP/1.1 {status} x\r\nContent-Length: 2\r\n{field}\r\nok".encode()


class Server(asyncio.Protocol):
    """Gives each request the same reply after a while, and once so many have come, or hangs up."""

    def __init__(self, reply: bytes | None, seconds: float, waiting: list["Server"], least: int) -> None:
        self._reply, self._seconds, self._waiting, self._least = reply, seconds, waiting, least

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._waiting.append(self)
        if len(self._waiting) >= self._least:
            for each in self._waiting:
                asyncio.get_running_loop().call_later(self._seconds, each._answer)
            self._waiting.clear()
            self._least = 0

    def _answer(self) -> None:
        if self._reply is None:
            self._transport.close()
        else:
            self._transport.write(self._reply)


def sent_to(
    reply: bytes | None, load: Load = STREAM, *, after: float = 0.0, least: int = 0, **changes: Any
) -> Seen:
    """What comes of a load on such a server."""
    waiting: list[Server] = []

    async def load_a_server() -> Seen:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Server(reply, after, waiting, least), "127.0.0.1", 0)
        async with server:
            client = Client(port=server.sockets[0].getsockname()[1])
            return await asyncio.to_thread(run, replace(load, client=client, **changes))

    return asyncio.run(load_a_server())


COUNT = len(list(STREAM.arrivals()))


def test_a_closed_loop_sends_its_bodies_in_turn_and_ends_by_their_number() -> None:
    busy = sent_to(answer(200), CLOSED)
    assert sorted(sample.which for sample in busy.samples) == [0, 0, 0, 0, 1, 1, 1]
    assert busy.answers == {0: {"ok"}, 1: {"ok"}}
    assert 0 < max(sample.seconds for sample in busy.samples) <= busy.seconds


def test_a_closed_loop_ends_by_its_time_and_does_not_count_the_warm_up() -> None:
    busy = sent_to(answer(200), CLOSED, most=None, seconds=0.1, warm_up_seconds=0.1)
    assert 0.1 <= busy.seconds < 5
    assert sum(sample.seconds for sample in busy.samples) < 3 * (busy.seconds + 0.1)


def test_a_closed_loop_fails_when_a_connection_is_lost() -> None:
    with pytest.raises(ConnectionError):
        sent_to(None, CLOSED)


def test_arrivals_are_a_poisson_stream_and_the_same_every_time() -> None:
    stream = replace(STREAM, rate=1000, seconds=20)
    arrivals = list(stream.arrivals())
    gaps = [later - earlier for earlier, later in pairwise(arrivals)]
    assert statistics.mean(gaps) == pytest.approx(1e-3, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(1e-3, rel=0.05)
    assert arrivals == list(stream.arrivals())


def test_every_request_is_sent_and_its_answer_noted() -> None:
    seen = sent_to(answer(200))
    assert [sample.status for sample in seen.samples] == [200] * COUNT
    assert all(sample.due <= sample.sent <= sample.ended for sample in seen.samples)
    assert (seen.lost, seen.left, seen.unsent) == (0, 0, 0)


def test_a_slow_service_is_asked_no_less() -> None:
    seen = sent_to(answer(200), least=COUNT)
    assert len(seen.samples) == COUNT
    assert max(sample.sent for sample in seen.samples) < min(sample.ended for sample in seen.samples)


def test_a_latency_counts_from_when_the_request_was_meant_to_be_sent() -> None:
    seen = sent_to(answer(200), after=0.05, connections=1)
    assert len(seen.samples) + seen.unsent == COUNT
    assert seen.unsent > 0
    assert max(sample.sent - sample.due for sample in seen.samples) > 0.1


def test_a_refusal_is_orderly_only_if_it_says_when_to_come_again() -> None:
    assert not any(sample.is_orderly for sample in sent_to(answer(503)).samples)
    assert all(sample.is_orderly for sample in sent_to(answer(503, "Retry-After: 1\r\n")).samples)


def test_who_is_not_answered_in_time_leaves() -> None:
    seen = sent_to(answer(200), after=10, patience=0.3)
    assert (len(seen.samples), seen.left) == (0, COUNT)


def test_a_connection_that_ends_loses_its_request_and_is_replaced() -> None:
    seen = sent_to(None)
    assert (len(seen.samples), seen.lost) == (0, COUNT)
    seen = sent_to(answer(200, "Connection: close\r\n"))
    assert (len(seen.samples), seen.lost) == (COUNT, 0)


def test_where_nobody_listens_all_is_lost() -> None:
    seen = run(STREAM)
    assert seen.lost + seen.unsent == COUNT
