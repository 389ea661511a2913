"""④ The fair order of clients: start-time fair queueing; a semaphore and a limiter of starts in that order.

Each client has a queue of its own with a start tag, in tokens of cost. The queue with the lowest tag is
served next. Serving it raises its tag by the cost of the item and makes its old tag the *virtual time*. A
client that comes back starts at the virtual time, or at its own tag if that is higher: it neither pays for
others nor gains by having been away. Goyal, Vin and Cheng 1996 (https://doi.org/10.1145/248156.248171).

Guarantees:

- While a client waits, no other client is served more than it is, beyond one item of each of the two.
- An item of a client that had nothing waiting is therefore preceded by at most one item of every other
  client, whatever their lengths and numbers: no later item overtakes it.
- Within a client's queue, first come, first served.

A client's queue may be suspended while the client has enough elsewhere. It keeps its tag, but gains no claim
to what it could not take.
"""

import asyncio
import heapq
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Generic, Protocol, TypeVar

_MIN_SWEEP_SIZE: Final = 64
_STARTS_PER_ITERATION: Final = 16


class Costly(Protocol):
    """An item that can wait."""

    @property
    def client(self) -> str:
        """The client that it belongs to."""

    @property
    def cost(self) -> int:
        """The cost that its client is charged when it is served, at least 1."""


Item = TypeVar("Item", bound=Costly)


@dataclass(eq=False, slots=True)
class _ClientQueue(Generic[Item]):
    """The waiting items of one client; without items it only remembers the client's tag."""

    tag: int
    # Not a plain dict: finding its first key takes longer the more keys were deleted before it.
    items: OrderedDict[Item, None] = field(default_factory=OrderedDict)
    # Order among queues of the same tag; None while the queue is not in the heap.
    number: int | None = None
    is_suspended: bool = False


class FairQueue(Generic[Item]):
    """One queue a client; every operation takes logarithmic time in the number of clients, amortised.

    Attributes:
        cost: Total cost of the items.
    """

    def __init__(self) -> None:
        self._clients: dict[str, _ClientQueue[Item]] = {}
        self._heap: list[tuple[int, int, _ClientQueue[Item]]] = []
        self._numbers = count()
        self._virtual_time = 0
        self._num_items = 0
        self.cost = 0
        self._sweep_at = _MIN_SWEEP_SIZE

    def __len__(self) -> int:
        return self._num_items

    def add(self, item: Item) -> None:
        """Append an item to its client's queue."""
        queue = self._clients.get(item.client)
        if queue is None:
            self._sweep()
            queue = self._clients[item.client] = _ClientQueue(self._virtual_time)
        queue.items[item] = None
        self._num_items += 1
        self.cost += item.cost
        if queue.number is None and not queue.is_suspended:
            self._enter(queue)

    def remove(self, item: Item) -> bool:
        """Remove an item without charging its client.

        Returns:
            Whether the item was waiting.
        """
        queue = self._clients.get(item.client)
        if queue is None or item not in queue.items:
            return False
        del queue.items[item]
        self._num_items -= 1
        self.cost -= item.cost
        if not queue.items:
            # Its entry in the heap is found to be stale when it comes up.
            queue.number, queue.is_suspended = None, False
        self._forget_if_idle()
        return True

    def first(self, may_run: Callable[[Item], bool]) -> Item | None:
        """The next item, without serving it.

        Args:
            may_run: Whether an item may be served now; if not, its client is suspended until `resume`.
        """
        while self._heap:
            _, number, queue = self._heap[0]
            if number == queue.number:
                item = next(iter(queue.items))
                if may_run(item):
                    return item
                queue.number, queue.is_suspended = None, True
            heapq.heappop(self._heap)
        return None

    def serve(self, item: Item) -> None:
        """Remove the item that `first` returned, and charge its client."""
        queue = self._clients[item.client]
        self._virtual_time = queue.tag
        queue.tag += item.cost
        del queue.items[item]
        self._num_items -= 1
        self.cost -= item.cost
        queue.number = None
        if queue.items:
            self._enter(queue)
        self._forget_if_idle()

    def resume(self, client: str) -> None:
        """Let a suspended client be served again."""
        queue = self._clients.get(client)
        if queue is not None and queue.is_suspended:
            queue.is_suspended = False
            self._enter(queue)

    def _enter(self, queue: _ClientQueue[Item]) -> None:
        queue.tag = max(queue.tag, self._virtual_time)
        queue.number = next(self._numbers)
        heapq.heappush(self._heap, (queue.tag, queue.number, queue))
        if len(self._heap) > 2 * len(self._clients) + _MIN_SWEEP_SIZE:
            # Most entries are stale: clients that waited, left and came back.
            self._heap = [entry for entry in self._heap if entry[1] == entry[2].number]
            heapq.heapify(self._heap)

    def _forget_if_idle(self) -> None:
        """Forget all tags once nothing waits: no client is ahead of another any more."""
        if not self._num_items:
            self._clients.clear()
            self._heap.clear()
            self._virtual_time = 0

    def _sweep(self) -> None:
        """Forget clients without items whose tag has passed, whenever there may be many of them."""
        if len(self._clients) >= self._sweep_at:
            self._clients = {
                client: queue
                for client, queue in self._clients.items()
                if queue.items or queue.tag > self._virtual_time
            }
            self._sweep_at = max(2 * len(self._clients), _MIN_SWEEP_SIZE)


@dataclass(eq=False, slots=True)
class _Waiter:
    client: str
    cost: int
    turn: asyncio.Future[None]


class FairSemaphore:
    """Permits, for which clients wait in a fair order; only the event loop uses it.

    Args:
        count: Number of permits.

    Attributes:
        free: Permits that are free; none while a client waits.
    """

    def __init__(self, count: int) -> None:
        self.free = self._count = count
        self._waiting: FairQueue[_Waiter] = FairQueue()

    def try_acquire(self) -> bool:
        """Take a permit if one is free; returns whether it was."""
        if not self.free:
            return False
        self.free -= 1
        return True

    async def acquire(self, client: str, cost: int = 1) -> None:
        """Wait for a permit; a caller that is cancelled has none.

        Args:
            client: Name of the client.
            cost: What the client is charged for it in the fair order, at least 1.
        """
        if self.try_acquire():
            return
        waiter = _Waiter(client, cost, asyncio.get_running_loop().create_future())
        self._waiting.add(waiter)
        try:
            await waiter.turn
        except asyncio.CancelledError:
            if not self._waiting.remove(waiter) and not waiter.turn.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """Give a permit back, which the next waiting client gets."""
        while (waiter := self._waiting.first(lambda _: True)) is not None:
            self._waiting.serve(waiter)
            # A cancelled waiter may not have removed itself yet.
            if not waiter.turn.done():
                waiter.turn.set_result(None)
                return
        # A StartLimiter gives back the permits of an iteration, and so may a waiter that was cancelled after
        # it got one of them.
        self.free = min(self.free + 1, self._count)


class StartLimiter:
    """① Limits how many requests start per iteration of the event loop: 503s stay fast under overload.

    To read, check and tokenise a request takes the event loop about half a millisecond. If 800 requests
    started in one iteration, all others would wait for a third of a second, those included that are refused
    at once. The limit must stay above what the engines finish in an iteration, or they run out of sentences.
    Only the event loop uses it.

    Args:
        limit: Highest number of starts in an iteration.
    """

    def __init__(self, limit: int = _STARTS_PER_ITERATION) -> None:
        self._limit = limit
        self._starts = FairSemaphore(limit)
        self._is_end_due = False

    def may_start(self) -> bool:
        """Returns whether a request may start at once; if not, it has to `wait`."""
        is_free = self._starts.try_acquire()
        if is_free:
            self._watch_iteration()
        return is_free

    async def wait(self, client: str) -> None:
        """Return in an iteration in which a request of this client may start."""
        await self._starts.acquire(client)

    def _watch_iteration(self) -> None:
        if not self._is_end_due:
            self._is_end_due = True
            asyncio.get_running_loop().call_soon(self._end_iteration)

    def _end_iteration(self) -> None:
        """Let as many requests start again: the event loop has polled its sockets since the last ones."""
        self._is_end_due = False
        for _ in range(self._limit - self._starts.free):
            self._starts.release()
        if self._starts.free < self._limit:
            self._watch_iteration()
