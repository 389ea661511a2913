"""④ The bounded queue of sentences that wait for an engine, in fair order.

A sentence costs its source tokens times its rows.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from app.admission.quota import Quota, SumByName
from app.backend import Model
from app.scheduling.fair_queue import FairQueue
from model.decode_request import DecodeRequest

SPAN_SECONDS: Final = 1.0


@dataclass(eq=False, slots=True)
class SentenceJob:
    """One sentence of a client; two jobs are equal only if they are one object.

    Attributes:
        model: The checkpoint that is to decode the sentence.
        request: The sentence.
        deadline: When its answer becomes worthless, seconds of the monotonic clock.
        arrival: When it was queued, seconds of the monotonic clock.
        is_streamed: Whether its client wants to see the translation grow.
        client: The client's name; no two clients share one.
        rows: Hypotheses that the engine keeps of it.
        cost: Tokens that its client is charged for, at least 1.
        taken: When it left the queue for an engine, on the same clock; None while it waits.
    """

    model: Model
    request: DecodeRequest
    deadline: float
    arrival: float
    is_streamed: bool = False
    client: str = ""
    rows: int = field(init=False)
    cost: int = field(init=False)
    taken: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.rows = self.request.options.rows
        self.cost = self.rows * len(self.request.source_ids) or 1


class RowLimit:
    """How many rows a client may have decoded at a time.

    Every row in a batch makes the steps longer for all clients. However fair the queue is, a client with 60
    requests in flight would make a client with a single request wait many times as long for each token.
    Therefore each client may have at most as many rows decoded at a time as the least demanding client wanted
    recently, or a stated minimum if that is more. A client that is alone has no limit. The limit leaves part
    of the machine unused on purpose: a running sentence keeps its rows to its end, so the next short request
    would otherwise find all rows taken.

    Time is cut into spans. The rows that a client wanted in the last whole span tell how demanding it is. A
    client that was not there is taken for modest until the span ends. Every operation takes constant time,
    amortised.

    Attributes:
        minimum: Rows that every client may have at any time, however little the others want.
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


class Backlog:
    """A fair queue for each checkpoint; all of them share one bound, and each client its share of that.

    Args:
        max_queued_tokens: Highest total cost of the waiting sentences.
        fair_rows: The minimum of the row limit.

    Attributes:
        tokens: Total cost of the waiting sentences, and how much more fits.
        is_rationed: Whether clients had a row limit at the last call of `first`.
        row_limit: Limits the rows of each client in the engines.
    """

    def __init__(self, max_queued_tokens: int, *, fair_rows: int) -> None:
        self.tokens = Quota(max_queued_tokens)
        self.is_rationed = False
        self._queues: dict[Model, FairQueue[SentenceJob]] = {}
        self._taken_rows: SumByName[str] = SumByName()
        self.row_limit = RowLimit(fair_rows)

    def __len__(self) -> int:
        # A scrape asks without the lock; `tuple` takes all queues at once.
        return sum(map(len, tuple(self._queues.values())))

    @property
    def models(self) -> tuple[Model, ...]:
        """Checkpoints that sentences wait for."""
        return tuple(self._queues)

    def tokens_of(self, model: Model) -> int:
        """Total cost of the sentences that wait for one checkpoint."""
        return self._queues[model].cost if model in self._queues else 0

    def tokens_before(self, client: str) -> int:
        """The cost that leaves before the next sentence of a client would.

        That is its own waiting sentences, and at most as much of each other client.
        """
        mine = self.tokens.of_client[client]
        others = (tokens for other, tokens in self.tokens.of_client.items() if other != client)
        return mine + sum(min(tokens, mine) for tokens in others)

    def add(self, jobs: Iterable[SentenceJob]) -> None:
        """Queue jobs; the caller has checked that they fit."""
        for job in jobs:
            queue = self._queues.get(job.model)
            if queue is None:
                queue = self._queues[job.model] = FairQueue()
            queue.add(job)
            self.row_limit.add(job.client, job.rows, job.arrival)
            self.tokens.take(job.cost, job.client)

    def remove(self, job: SentenceJob) -> bool:
        """Remove a job that waits.

        Returns:
            Whether the job was waiting.
        """
        queue = self._queues.get(job.model)
        if queue is None or not queue.remove(job):
            return False
        self.row_limit.remove(job.client, job.rows)
        self._forget(job, queue)
        return True

    def first(self, model: Model, now: float) -> SentenceJob | None:
        """The next sentence of a checkpoint; removes sentences whose deadline has passed on the way."""
        queue = self._queues.get(model)
        limit = self.row_limit.limit(now)
        self.is_rationed = math.isfinite(limit)
        while queue is not None:
            job = queue.first(lambda job: self._may_run(job, limit))
            if job is None or job.deadline > now:
                return job
            self.remove(job)
        return None

    def take(self, job: SentenceJob) -> None:
        """Move the first sentence to an engine."""
        queue = self._queues[job.model]
        queue.serve(job)
        self._taken_rows.add(job.client, job.rows)
        self._forget(job, queue)

    def give_back(self, job: SentenceJob) -> None:
        """Record that a sentence has left its engine."""
        self._taken_rows.add(job.client, -job.rows)
        self.row_limit.remove(job.client, job.rows)
        for queue in self._queues.values():
            queue.resume(job.client)

    def _may_run(self, job: SentenceJob, limit: float) -> bool:
        taken = self._taken_rows[job.client]
        return not taken or taken + job.rows <= limit

    def _forget(self, job: SentenceJob, queue: FairQueue[SentenceJob]) -> None:
        self.tokens.give_back(job.cost, job.client)
        if not queue:
            del self._queues[job.model]
