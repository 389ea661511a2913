"""① Quotas: the share of a bounded resource that one client may take, and the rate at which it is freed.

A client that has some of the resource may take more until it has ALPHA times as much as is still free:
dynamic thresholds, Choudhury and Hahne 1998 (https://doi.org/10.1109/90.731195). A lone client so gets
ALPHA / (1 + ALPHA) of the resource. Of n greedy clients each gets ALPHA / (1 + n · ALPHA), and a part stays
free. A client that has nothing may take all that is free.
"""

import math
import threading
from collections.abc import Hashable
from typing import Final, TypeVar

ALPHA: Final = 4
# Half of the weight lies on the last two seconds of work, so that a change of load shows quickly.
_HALF_LIFE_SECONDS = 2.0
_LONGEST_WAIT = 60
# Less work than this predicts nothing: a batch that has just begun has not finished any sentence.
_EVIDENCE_SECONDS = 0.5

Name = TypeVar("Name", bound=Hashable)


class SumByName(dict[Name, int]):
    """A sum for each name; names whose sum is 0 are absent."""

    def __missing__(self, name: Name) -> int:
        return 0

    def add(self, name: Name, amount: int) -> None:
        """Add an amount, possibly negative, to a sum."""
        total = self[name] + amount
        if total:
            self[name] = total
        else:
            self.pop(name, None)


class Quota:
    """A bounded resource, of which every client may take its share.

    Args:
        size: How much of the resource there is.

    Attributes:
        size: As given.
        taken: How much of it is in use.
        of_client: How much of it each client has.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.taken = 0
        self.of_client: SumByName[str] = SumByName()

    def fits(self, amount: int, client: str) -> bool:
        """Returns whether a client may take an amount."""
        mine, left = self.of_client[client], self.size - self.taken - amount
        return left >= 0 and (mine == 0 or mine + amount <= ALPHA * left)

    def excess(self, amount: int, client: str) -> int:
        """Returns what the client, or if it has nothing any client, must give back before an amount fits."""
        mine, left = self.of_client[client], self.size - self.taken - amount
        missing = max(-left, 0)
        return missing if mine == 0 else max(missing, -((ALPHA * left - mine - amount) // (1 + ALPHA)))

    def take(self, amount: int, client: str) -> None:
        """Take an amount for a client; the caller has checked that it fits."""
        self.taken += amount
        self.of_client.add(client, amount)

    def give_back(self, amount: int, client: str) -> None:
        """Give an amount back that a client has."""
        self.taken -= amount
        self.of_client.add(client, -amount)


class MeasuredRate:
    """Smoothed throughput of all workers if they all work; thread-safe.

    Args:
        workers: Engines that can work at once.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._done = (0.0, 0.0)  # tokens and seconds; replaced as one, so reading needs no lock

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens of cost a second; None before anything was finished."""
        tokens, seconds = self._done
        return self._workers * tokens / seconds if tokens else None

    def record(self, tokens: int, seconds: float) -> None:
        """Record the tokens, often none, that one worker finished in some seconds of work."""
        kept = 0.5 ** (seconds / _HALF_LIFE_SECONDS)
        with self._lock:
            before = self._done
            self._done = (kept * before[0] + tokens, kept * before[1] + max(seconds, 1e-6))

    def seconds_for(self, tokens: int) -> int:
        """Whole seconds in which some tokens will be finished, from 1 to 60; 1 before any measurement."""
        rate = self.tokens_per_second
        return 1 if rate is None else min(max(math.ceil(tokens / rate), 1), _LONGEST_WAIT)

    def predict(self, tokens: int) -> float:
        """Seconds in which some tokens will be finished; 0 before enough was measured."""
        rate = self.tokens_per_second
        return tokens / rate if rate is not None and self._done[1] >= _EVIDENCE_SECONDS else 0.0
