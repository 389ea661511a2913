"""Connections for which there is no room."""

import json

import pytest

from app.connection.limits import Door
from tests.app.connection.connection import Wire
from tests.app.connection.test_connection import GET, PatientWire

pytestmark = pytest.mark.anyio


class Caller:
    """A connection that only notes that it had to go."""

    def __init__(self, door: Door) -> None:
        self.has_gone = False
        self._door = door

    def make_room(self) -> None:
        self.has_gone = True
        self._door.leave(self)


def test_the_longest_idle_makes_room() -> None:
    door = Door(room=2)
    first, second, third, fourth = (Caller(door) for _ in range(4))
    assert door.enter(first)
    assert door.enter(second)
    door.occupy(first)
    door.rest(first)
    assert door.enter(third)
    assert [caller.has_gone for caller in (first, second)] == [False, True]
    door.occupy(first)
    door.occupy(third)
    assert not door.enter(fourth)
    assert not door.is_overrun
    door.leave(fourth)
    door.leave(first)
    assert door.enter(Caller(door))


def test_somebody_always_hears_that_there_is_no_room_but_not_everybody() -> None:
    door = Door(room=0)
    told = 0
    while not door.is_overrun:
        assert not door.enter(Caller(door))
        told += 1
    assert 8 <= told <= 64


async def test_a_client_that_only_connected_goes_for_one_that_asks() -> None:
    door = Door(room=1)
    silent, asking = Wire(door), Wire(door)
    await asking.send(GET)
    assert (silent.is_closing(), silent.written, asking.statuses) == (True, b"", [200])


async def test_half_a_head_is_no_request() -> None:
    door = Door(room=1)
    half = Wire(door)
    await half.send(GET[:-4])
    asking = Wire(door)
    await asking.send(GET)
    assert (half.is_closing(), asking.statuses) == (True, [200])


async def test_whose_request_is_worked_on_stays() -> None:
    door = Door(room=1)
    busy = PatientWire(door)
    await busy.send(GET)
    late = Wire(door)
    head, _, body = late.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"\r\nRetry-After: 1" in head
    assert json.loads(body)["code"] == "too_many_connections"
    assert (late.has_ended, late.refusals) == (True, ["too_many_connections"])
    late.protocol.connection_lost(None)
    busy.may_answer.set()
    await busy.send(b"")
    assert (busy.statuses, busy.is_closing()) == ([200], False)
    next_one = Wire(door)
    await next_one.send(GET)
    assert (busy.is_closing(), next_one.statuses) == (True, [200])


async def test_where_there_is_not_even_room_to_say_so_nothing_is_said() -> None:
    door = Door(room=0)
    while not door.is_overrun:
        Wire(door)
    last = Wire(door)
    assert (last.is_closing(), last.written, last.refusals) == (True, b"", [])
