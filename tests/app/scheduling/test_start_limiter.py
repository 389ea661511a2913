"""How many requests start in one iteration of the event loop."""

import asyncio

import pytest

from app.scheduling.fair_queue import StartLimiter

pytestmark = pytest.mark.anyio


class Starts:
    """Notes in which iteration of the event loop the request of each client starts."""

    def __init__(self, limit: int) -> None:
        self.started: list[tuple[int, str]] = []
        self._limiter = StartLimiter(limit)
        self._iteration = 0

    def request(self, client: str) -> asyncio.Task[None]:
        return asyncio.create_task(self._request(client))

    async def _request(self, client: str) -> None:
        if not self._limiter.may_start():
            await self._limiter.wait(client)
        self.started.append((self._iteration, client))

    async def until(self, *tasks: asyncio.Task[None]) -> None:
        while not all(task.done() for task in tasks):
            self._iteration += 1
            await asyncio.sleep(0)

    def sizes(self) -> list[int]:
        """Starts in each iteration that has any."""
        iterations = [iteration for iteration, _ in self.started]
        return [iterations.count(iteration) for iteration in sorted(set(iterations))]


async def test_of_many_requests_a_few_start_in_each_iteration_and_all_in_the_end() -> None:
    starts = Starts(4)
    await starts.until(*(starts.request("a") for _ in range(20)))
    assert starts.sizes() == [4] * 5


async def test_requests_of_clients_start_in_turn() -> None:
    starts = Starts(1)
    greedy = [starts.request("greedy") for _ in range(10)]
    await starts.until(*greedy, starts.request("modest"))
    assert [client for _, client in starts.started].index("modest") <= 2


async def test_a_cancelled_request_takes_no_place() -> None:
    starts = Starts(1)
    tasks = [starts.request(name) for name in "abcd"]
    await asyncio.sleep(0)
    for task in tasks[1:3]:
        task.cancel()
    await starts.until(*tasks)
    assert all(task.cancelled() for task in tasks[1:3])
    await starts.until(starts.request("e"))
    assert [client for _, client in starts.started] == ["a", "d", "e"]


async def test_a_request_that_is_cancelled_on_its_turn_adds_no_start() -> None:
    starts = Starts(1)
    first, second = starts.request("a"), starts.request("b")
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(second.cancel)  # after the limiter has given it its turn
    await starts.until(first, second)
    assert second.cancelled()
    await starts.until(*(starts.request("c") for _ in range(4)))
    assert starts.sizes() == [1] * 5


async def test_requests_that_are_cancelled_on_their_turns_one_after_another_add_no_start() -> None:
    starts = Starts(1)
    tasks = [starts.request(name) for name in "abc"]
    await asyncio.sleep(0)
    for task in tasks[1:]:
        asyncio.get_running_loop().call_soon(task.cancel)
        await asyncio.sleep(0)
    await starts.until(*tasks)
    assert all(task.cancelled() for task in tasks[1:])
    await starts.until(*(starts.request("d") for _ in range(4)))
    assert starts.sizes() == [1] * 5
