"""④ Whose turn it is: start-time fair queueing over clients; pure policy, no threads, no clock.

Each client that waits has a line of its own with a start tag, in tokens of cost. The line with the least
tag is served; that raises its tag by what was served, and makes its old one the *virtual time*. A client
that comes to wait starts at the virtual time, or where it had got to if that is later: neither does it pay
for others, nor gain by having been away. Goyal, Vin and Cheng 1996 (https://doi.org/10.1145/248156.248171).

What it promises, whatever the others do:

- While a client waits, nobody else is served more than it is, beyond one sentence of each of the two.
- So a sentence of a client that had nothing waiting is preceded by at most one sentence of every other
  client, however long it is and however short and many theirs are: nobody who comes later overtakes it.
- Within a line, first come, first served.

A line may be put aside while its client has enough elsewhere. It keeps its place, but gains no claim to
what it could not take.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, Protocol, TypeVar


class Costly(Protocol):
    """What can wait."""

    @property
    def client(self) -> str:
        """Whose it is."""

    @property
    def cost(self) -> int:
        """How much its client is charged when it is served, at least 1."""


Item = TypeVar("Item", bound=Costly)
_FEW_LINES = 64


@dataclass(eq=False, slots=True)
class _Line(Generic[Item]):
    """What one client waits for; without items it only remembers where the client had got to."""

    tag: int
    # Not a plain dict: finding its first key takes longer the more were deleted before it.
    items: OrderedDict[Item, None] = field(default_factory=OrderedDict)
    # Where it stands among lines with the same tag; None while it stands nowhere.
    number: int | None = None
    is_aside: bool = False


class FairQueue(Generic[Item]):
    """Lines of clients; every operation takes logarithmic time in their number, amortised."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line[Item]] = {}
        self._order: list[tuple[int, int, _Line[Item]]] = []
        self._numbers = count()
        self._virtual_time = 0
        self._num_items = 0
        self._sweep_at = _FEW_LINES

    def __len__(self) -> int:
        return self._num_items

    def add(self, item: Item) -> None:
        """Let something wait, behind what its client has waiting."""
        line = self._lines.get(item.client)
        if line is None:
            self._sweep()
            line = self._lines[item.client] = _Line(self._virtual_time)
        line.items[item] = None
        self._num_items += 1
        if line.number is None and not line.is_aside:
            self._enter(line)

    def remove(self, item: Item) -> bool:
        """Let go of something, free of charge.

        Returns:
            Whether it was waiting.
        """
        line = self._lines.get(item.client)
        if line is None or item not in line.items:
            return False
        del line.items[item]
        self._num_items -= 1
        if not line.items:
            # Its place in the order is found to be stale when it comes up.
            line.number, line.is_aside = None, False
        self._forget_if_idle()
        return True

    def first(self, may_go: Callable[[Item], bool]) -> Item | None:
        """Whose turn it is, without serving it.

        Args:
            may_go: Whether something may be served now; if not, its line is put aside until `recall`.
        """
        while self._order:
            _, number, line = self._order[0]
            if number == line.number:
                item = next(iter(line.items))
                if may_go(item):
                    return item
                line.number, line.is_aside = None, True
            heapq.heappop(self._order)
        return None

    def serve(self, item: Item) -> None:
        """Take out what `first` gave, and charge its client."""
        line = self._lines[item.client]
        self._virtual_time = line.tag
        line.tag += item.cost
        del line.items[item]
        self._num_items -= 1
        line.number = None
        if line.items:
            self._enter(line)
        self._forget_if_idle()

    def recall(self, client: str) -> None:
        """Let a client's line, if it is aside, take its place again."""
        line = self._lines.get(client)
        if line is not None and line.is_aside:
            line.is_aside = False
            self._enter(line)

    def _enter(self, line: _Line[Item]) -> None:
        line.tag = max(line.tag, self._virtual_time)
        line.number = next(self._numbers)
        heapq.heappush(self._order, (line.tag, line.number, line))
        if len(self._order) > 2 * len(self._lines) + _FEW_LINES:
            # Most are stale: clients who waited, left and came again.
            self._order = [place for place in self._order if place[1] == place[2].number]
            heapq.heapify(self._order)

    def _forget_if_idle(self) -> None:
        """Nobody waits: nobody is ahead of anybody any more."""
        if not self._num_items:
            self._lines.clear()
            self._order.clear()
            self._virtual_time = 0

    def _sweep(self) -> None:
        """Forget clients who wait for nothing and are not ahead, whenever there may be many of them."""
        if len(self._lines) >= self._sweep_at:
            self._lines = {
                client: line
                for client, line in self._lines.items()
                if line.items or line.tag > self._virtual_time
            }
            self._sweep_at = max(2 * len(self._lines), _FEW_LINES)
