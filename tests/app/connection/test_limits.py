"""Limits of connections: their number, and the least rate of their bytes."""

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from app.connection.limits import ConnectionLimit, MinRateTimeout
from tests.app.connection.connection import Wire
from tests.app.connection.test_connection import GET, PatientWire


class Connection:
    """Notes whether it had to close."""

    def __init__(self, limit: ConnectionLimit) -> None:
        self.is_closed = False
        self._limit = limit

    def close_idle(self) -> None:
        self.is_closed = True
        self._limit.close(self)


def test_the_longest_idle_connection_is_closed_for_a_new_one() -> None:
    limit = ConnectionLimit(2)
    first, second, third, fourth = (Connection(limit) for _ in range(4))
    assert limit.open(first)
    assert limit.open(second)
    limit.set_busy(first)
    limit.set_idle(first)
    assert limit.open(third)
    assert [connection.is_closed for connection in (first, second)] == [False, True]
    limit.set_busy(first)
    limit.set_busy(third)
    assert not limit.open(fourth)
    assert not limit.is_overrun
    limit.close(fourth)
    limit.close(first)
    assert limit.open(Connection(limit))


def test_some_connections_over_the_limit_are_told_so() -> None:
    limit = ConnectionLimit(0)
    told = 0
    while not limit.is_overrun:
        assert not limit.open(Connection(limit))
        told += 1
    assert 8 <= told <= 64


@pytest.mark.anyio
@pytest.mark.parametrize("sent", [b"", GET])
async def test_a_connection_without_a_request_is_closed_after_some_time(sent: bytes) -> None:
    limit = ConnectionLimit(2)
    idle, busy = Wire(limit), PatientWire(limit)
    await idle.send(sent)
    await busy.send(GET)
    limit.close_idle(60)
    assert not idle.is_closing()
    limit.close_idle(0)
    assert (idle.is_closing(), busy.is_closing()) == (True, False)


@pytest.mark.anyio
@pytest.mark.parametrize("sent", [b"", GET[:-4]])
async def test_a_client_without_a_whole_head_is_closed_for_one_that_asks(sent: bytes) -> None:
    limit = ConnectionLimit(1)
    silent = Wire(limit)
    await silent.send(sent)
    asking = Wire(limit)
    await asking.send(GET)
    assert (silent.is_closing(), silent.written, asking.statuses) == (True, b"", [200])


@pytest.mark.anyio
async def test_a_connection_with_a_request_in_progress_stays() -> None:
    limit = ConnectionLimit(1)
    busy = PatientWire(limit)
    await busy.send(GET)
    late = Wire(limit)
    head, _, body = late.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"\r\nRetry-After: 1" in head
    assert json.loads(body)["code"] == "too_many_connections"
    assert (late.has_ended, late.rejections) == (True, ["too_many_connections"])
    late.protocol.connection_lost(None)
    busy.may_answer.set()
    await busy.send(b"")
    assert (busy.statuses, busy.is_closing()) == ([200], False)


class Timers:
    """An event loop of which only the timers exist, and whose time a test sets."""

    def __init__(self) -> None:
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._now = 0.0

    def call_later(self, seconds: float, call: Callable[[int], None], moved: int) -> object:
        timer = (self._now + seconds, lambda: call(moved))
        self._due.append(timer)
        return SimpleNamespace(cancel=lambda: self._due.remove(timer))

    def wait(self, seconds: float) -> None:
        self._now += seconds
        while due := [timer for timer in self._due if timer[0] <= self._now]:
            self._due.remove(due[0])
            due[0][1]()


class Line:
    """A connection over which bytes move."""

    def __init__(self) -> None:
        self.moved = 0
        self.num_expired = 0
        self.timers = Timers()
        loop = cast(asyncio.AbstractEventLoop, self.timers)
        self.timeout = MinRateTimeout(loop, 6.0, moved=lambda: self.moved, expire=self._expire)

    def _expire(self) -> None:
        self.num_expired += 1


def test_a_connection_that_moves_too_few_bytes_expires_once() -> None:
    line = Line()
    line.timeout.start()
    line.timeout.start()
    line.moved += 1000
    line.timers.wait(5.9)
    assert line.num_expired == 0
    for _ in range(3):
        line.timers.wait(6.0)
        assert line.num_expired == 1


def test_a_connection_that_moves_enough_bytes_goes_on() -> None:
    line = Line()
    line.timeout.start()
    for _ in range(3):
        line.moved += 16 * 1024
        line.timers.wait(6.0)
        assert line.num_expired == 0
    line.timers.wait(6.0)
    assert line.num_expired == 1


def test_a_timeout_that_was_stopped_does_not_expire() -> None:
    line = Line()
    line.timeout.stop()
    line.timeout.start()
    line.timeout.stop()
    line.timers.wait(60.0)
    assert line.num_expired == 0
    line.timeout.start()
    line.timers.wait(6.0)
    assert line.num_expired == 1
