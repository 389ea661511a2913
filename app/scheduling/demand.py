"""④ How much of the running batches each client may have; pure policy, the clock is an argument.

Every row in a batch makes its steps longer for all. A client with 60 requests in flight would so make one
with a single request wait many times as long for each token, however fair the queue is. Therefore nobody
has more rows decoded at a time than the least demanding client wanted of late, or than a stated floor; who
is alone has all. That leaves part of the machine unused on purpose: a place taken by a sentence is not
given back before it ends, so the next short request would find it full.

Time is cut into spans. What a client wanted in the last whole span tells how demanding it is; one that was
not there is taken for modest until the span ends.
"""

import math
from typing import Final

SPAN_SECONDS: Final = 1.0


class Demand:
    """Who has wanted how many rows; every operation takes constant time, amortised.

    Args:
        floor: Rows that every client may have at any time.
    """

    def __init__(self, floor: int) -> None:
        self._floor = floor
        self._wanted: dict[str, int] = {}
        # The most that was wanted at a time, by client: in this span, and in the one before.
        self._peaks: dict[str, int] = {}
        self._past: dict[str, int] = {}
        self._least = math.inf
        self._newcomers = 0
        self._ends = -math.inf

    def rise(self, client: str, rows: int, now: float) -> None:
        """A client wants more."""
        self._turn_over(now)
        wanted = self._wanted[client] = self._wanted.get(client, 0) + rows
        if client not in self._peaks and client not in self._past:
            self._newcomers += 1
        self._peaks[client] = max(self._peaks.get(client, 0), wanted)

    def fall(self, client: str, rows: int) -> None:
        """It got it, or wants it no more."""
        self._wanted[client] -= rows
        if not self._wanted[client]:
            del self._wanted[client]

    def allowance(self, now: float) -> float:
        """Most rows that one client may have decoded now; infinite if there is only one client."""
        self._turn_over(now)
        if len(self._past) + self._newcomers < 2:
            return math.inf
        return self._floor if self._newcomers else max(self._least, self._floor)

    def _turn_over(self, now: float) -> None:
        if now < self._ends:
            return
        is_next = now < self._ends + SPAN_SECONDS
        self._past = self._peaks if is_next else dict(self._wanted)
        self._peaks = dict(self._wanted)
        self._least = min(self._past.values(), default=math.inf)
        self._newcomers = 0
        self._ends = now + SPAN_SECONDS
