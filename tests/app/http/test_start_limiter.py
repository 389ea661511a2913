"""How many requests begin in one turn of the event loop."""

import asyncio

import pytest

from app.http.start_limiter import Turnstile

pytestmark = pytest.mark.anyio


class Turns:
    """Notes in which turn of the event loop each request passed."""

    def __init__(self, turnstile: Turnstile) -> None:
        self.passed: list[tuple[int, str]] = []
        self._turnstile = turnstile
        self._turn = 0

    async def request(self, client: str) -> None:
        if not self._turnstile.passes():
            await self._turnstile.wait(client)
        self.passed.append((self._turn, client))

    async def until(self, *tasks: asyncio.Task[None]) -> None:
        while not all(task.done() for task in tasks):
            self._turn += 1
            await asyncio.sleep(0)

    def sizes(self) -> list[int]:
        """Requests that passed, of each turn in which any did."""
        turns = [turn for turn, _ in self.passed]
        return [turns.count(turn) for turn in sorted(set(turns))]


async def test_few_pass_together() -> None:
    turns = Turns(Turnstile(together=3, in_a_crowd=1))
    await turns.until(*[asyncio.create_task(turns.request("a")) for _ in range(3)])
    assert turns.sizes() == [3]


async def test_of_a_crowd_a_few_pass_in_each_turn_and_all_in_the_end() -> None:
    turns = Turns(Turnstile(together=4, in_a_crowd=2))
    await turns.until(*[asyncio.create_task(turns.request("a")) for _ in range(20)])
    sizes = turns.sizes()
    assert sum(sizes) == 20
    assert max(sizes) <= 4
    assert sizes[1:6] == [2] * 5


async def test_clients_pass_in_turn() -> None:
    turns = Turns(Turnstile(together=1, in_a_crowd=1))
    greedy = [asyncio.create_task(turns.request("greedy")) for _ in range(10)]
    modest = asyncio.create_task(turns.request("modest"))
    await turns.until(*greedy, modest)
    assert [client for _, client in turns.passed].index("modest") <= 2


async def test_who_gives_up_takes_nobodys_place() -> None:
    turns = Turns(Turnstile(together=1, in_a_crowd=1))
    tasks = [asyncio.create_task(turns.request(name)) for name in "abcd"]
    await asyncio.sleep(0)
    tasks[1].cancel()
    tasks[2].cancel()
    await turns.until(*tasks)
    assert [client for _, client in turns.passed] == ["a", "d"]
    assert all(task.cancelled() for task in tasks[1:3])
    await turns.until(asyncio.create_task(turns.request("e")))
    assert [client for _, client in turns.passed] == ["a", "d", "e"]
