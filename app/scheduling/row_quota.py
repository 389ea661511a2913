"""④ Each client's share of the engines: how many rows it may have decoded at a time. No threads, no clock.

Every row in a batch makes the steps longer for all clients. However fair the queue is, a client with 60
requests in flight would make a client with a single request wait many times as long for each token.
Therefore each client may have at most as many rows decoded at a time as the least demanding client wanted
recently, or a stated minimum if that is more. A client that is alone has no quota. The quota leaves part
of the machine unused on purpose: a running sentence keeps its rows to its end, so the next short request
would otherwise find all rows taken.

Time is cut into spans. The rows that a client wanted in the last whole span tell how demanding it is. A
client that was not there is taken for modest until the span ends.
"""

import math
from typing import Final

SPAN_SECONDS: Final = 1.0


class RowQuota:
    """Counts the rows that each client wants; every operation takes constant time, amortised.

    Args:
        minimum: Rows that every client may have at any time.

    Attributes:
        minimum: As given; may be changed.
    """

    def __init__(self, minimum: int) -> None:
        self.minimum = minimum
        self._wanted: dict[str, int] = {}
        # The most rows that a client wanted at a time: in this span, and in the one before.
        self._peaks: dict[str, int] = {}
        self._past: dict[str, int] = {}
        self._least_wanted = math.inf
        self._newcomers = 0
        self._ends = -math.inf

    def add(self, client: str, rows: int, now: float) -> None:
        """Count rows that a client wants from now on, until `remove`."""
        self._start_span_if_due(now)
        wanted = self._wanted[client] = self._wanted.get(client, 0) + rows
        if client not in self._peaks and client not in self._past:
            self._newcomers += 1
        self._peaks[client] = max(self._peaks.get(client, 0), wanted)

    def remove(self, client: str, rows: int) -> None:
        """Stop counting rows of a client: their sentences have ended or were withdrawn."""
        self._wanted[client] -= rows
        if not self._wanted[client]:
            del self._wanted[client]

    def limit(self, now: float) -> float:
        """Most rows that one client may have decoded now; infinite if there is only one client."""
        self._start_span_if_due(now)
        if len(self._past) + self._newcomers < 2:
            return math.inf
        return self.minimum if self._newcomers else max(self._least_wanted, self.minimum)

    def _start_span_if_due(self, now: float) -> None:
        if now < self._ends:
            return
        is_next = now < self._ends + SPAN_SECONDS
        self._past = self._peaks if is_next else dict(self._wanted)
        self._peaks = dict(self._wanted)
        self._least_wanted = min(self._past.values(), default=math.inf)
        self._newcomers = 0
        self._ends = now + SPAN_SECONDS
