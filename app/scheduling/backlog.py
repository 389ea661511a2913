"""④ The bounded queue: what waits for an engine, in fair order, and the row quota of each client.

Every row in a batch makes its steps longer for all. A client with 60 requests in flight would so make one
with a single request wait many times as long for each token, however fair the queue is. Therefore nobody
has more rows decoded at a time than the least demanding client wanted of late, or than a stated floor; who
is alone has all. That leaves part of the machine unused on purpose: a place taken by a sentence is not
given back before it ends, so the next short request would find it full.

Time is cut into spans. What a client wanted in the last whole span tells how demanding it is; one that was
not there is taken for modest until the span ends.

A sentence costs its source tokens times the rows it occupies.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from app.admission import quota
from app.admission.quota import Tally
from app.scheduling.fair_queue import FairQueue
from model.request import DecodeRequest

SPAN_SECONDS: Final = 1.0


class RowQuota:
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


@dataclass(eq=False, slots=True)
class SentenceJob:
    """One sentence of a client; two jobs are the same only if they are one object.

    Attributes:
        model: Checkpoint that is to decode it.
        request: The sentence.
        deadline: When its answer becomes worthless, seconds of the monotonic clock.
        arrival: When it was admitted, seconds of the monotonic clock.
        is_followed: Whether its client wants to see it grow.
        client: Whose it is.
        rows: Hypotheses that are kept of it.
        cost: Tokens it is charged for, at least 1.
        taken: When it left for an engine, on the same clock; None while it waits.
    """

    model: str
    request: DecodeRequest
    deadline: float
    arrival: float
    is_streamed: bool = False
    client: str = ""
    rows: int = field(init=False)
    cost: int = field(init=False)
    taken: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.rows = self.request.options.lanes
        self.cost = max(self.rows * len(self.request.source_ids), 1)


class Backlog:
    """A fair queue for each checkpoint, all within one bound of which no client gets more than its share.

    Args:
        max_queued_tokens: Most that may wait, in cost.
        fair_rows: Rows that a client may have in the engines however little the others want.

    Attributes:
        queued_tokens: What waits, in cost.
        is_rationed: Whether clients had a limit of rows when `first` was asked last.
    """

    def __init__(self, max_queued_tokens: int, *, fair_rows: int) -> None:
        self.max_queued_tokens = max_queued_tokens
        self.queued_tokens = 0
        self.is_rationed = False
        self._num_jobs = 0
        self._queues: dict[str, FairQueue[SentenceJob]] = {}
        self._tokens_of_model = Tally()
        self._tokens_of_client = Tally()
        self._taken_rows = Tally()
        self._quota = RowQuota(fair_rows)

    def __len__(self) -> int:
        return self._num_jobs

    def has_room(self, cost: int, client: str) -> bool:
        """Whether this much more of a client may wait."""
        return quota.fits(cost, mine=self._tokens_of_client[client], free=self._free)

    def excess(self, cost: int, client: str) -> int:
        """How much must leave before this much more of a client may wait, in cost."""
        return quota.excess(cost, mine=self._tokens_of_client[client], free=self._free)

    def tokens_of(self, model: str) -> int:
        """What waits for one checkpoint, in cost."""
        return self._tokens_of_model[model]

    def tokens_before(self, client: str) -> int:
        """What leaves before the next sentence of a client, in cost: its own, and of others as much."""
        mine = self._tokens_of_client[client]
        others = (tokens for other, tokens in self._tokens_of_client.items() if other != client)
        return mine + sum(min(tokens, mine) for tokens in others)

    def add(self, jobs: Iterable[SentenceJob]) -> None:
        """Let jobs wait; whoever calls has asked `has_room`."""
        for job in jobs:
            self._queues.setdefault(job.model, FairQueue()).add(job)
            self._quota.rise(job.client, job.rows, job.arrival)
            self._count(job, 1)

    def remove(self, job: SentenceJob) -> bool:
        """Take a job out for good.

        Returns:
            Whether it was waiting.
        """
        queue = self._queues.get(job.model)
        if queue is None or not queue.remove(job):
            return False
        self._quota.fall(job.client, job.rows)
        self._count(job, -1)
        return True

    def first(self, model: str, now: float) -> SentenceJob | None:
        """The sentence whose turn it is; those whose deadline has passed are forgotten on the way."""
        queue = self._queues.get(model)
        allowance = self._quota.allowance(now)
        self.is_rationed = math.isfinite(allowance)
        while queue is not None:
            job = queue.first(lambda job: self._may_go(job, allowance))
            if job is None or job.deadline > now:
                return job
            self.remove(job)
        return None

    def take(self, job: SentenceJob) -> None:
        """The first one goes to an engine."""
        self._queues[job.model].serve(job)
        self._taken_rows.add(job.client, job.rows)
        self._count(job, -1)

    def give_back(self, job: SentenceJob) -> None:
        """One that was taken has ended."""
        self._taken_rows.add(job.client, -job.rows)
        self._quota.fall(job.client, job.rows)
        for queue in self._queues.values():
            queue.recall(job.client)

    @property
    def _free(self) -> int:
        return self.max_queued_tokens - self.queued_tokens

    def _may_go(self, job: SentenceJob, allowance: float) -> bool:
        taken = self._taken_rows[job.client]
        return not taken or taken + job.rows <= allowance

    def _count(self, job: SentenceJob, sign: int) -> None:
        self._num_jobs += sign
        self.queued_tokens += sign * job.cost
        self._tokens_of_model.add(job.model, sign * job.cost)
        self._tokens_of_client.add(job.client, sign * job.cost)
