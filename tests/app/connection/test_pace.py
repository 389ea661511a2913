"""Who moves too few bytes is given up, once."""

import asyncio

import pytest

from app.connection.limits import Pace

pytestmark = pytest.mark.anyio
SECONDS = 0.02


class Line:
    """Something that bytes move over."""

    def __init__(self) -> None:
        self.moved = 0
        self.given_up = 0
        loop = asyncio.get_running_loop()
        self.pace = Pace(loop, SECONDS, moved=lambda: self.moved, give_up=self._give_up)

    def _give_up(self) -> None:
        self.given_up += 1

    async def until_given_up(self) -> None:
        async with asyncio.timeout(10):
            while not self.given_up:
                await asyncio.sleep(SECONDS / 4)
        await asyncio.sleep(5 * SECONDS)  # not a second time


async def test_who_does_not_move_is_given_up_once() -> None:
    line = Line()
    line.pace.watch()
    line.pace.watch()
    await line.until_given_up()
    assert line.given_up == 1


async def test_who_moves_enough_is_watched_on() -> None:
    line = Line()
    line.pace.watch()
    line.moved += 2**40
    await asyncio.sleep(0)
    assert line.given_up == 0
    await line.until_given_up()
    assert line.given_up == 1


async def test_who_need_not_move_is_left_alone() -> None:
    line = Line()
    line.pace.stop()
    line.pace.watch()
    line.pace.stop()
    await asyncio.sleep(5 * SECONDS)
    assert line.given_up == 0
    line.pace.watch()
    await line.until_given_up()
    assert line.given_up == 1
