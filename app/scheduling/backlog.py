"""④ What waits for an engine, in order of arrival: pure policy, no threads, the clock is an argument.

A sentence costs its source tokens times the rows it occupies.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from model.request import DecodeRequest


@dataclass(eq=False, slots=True)
class Job:
    """One sentence of a client; two jobs are the same only if they are one object.

    Attributes:
        model: Checkpoint that is to decode it.
        request: The sentence.
        deadline: When its answer becomes worthless, seconds of the monotonic clock.
        arrival: When it was admitted, seconds of the monotonic clock.
        is_followed: Whether its client wants to see it grow.
        client: Whose it is.
        cost: Tokens it is charged for, at least 1.
    """

    model: str
    request: DecodeRequest
    deadline: float
    arrival: float
    is_followed: bool = False
    client: str = ""
    cost: int = field(init=False)

    def __post_init__(self) -> None:
        self.cost = max(self.request.options.lanes * len(self.request.source_ids), 1)


class Backlog:
    """One queue a checkpoint, within one bound.

    Args:
        max_queued_tokens: Most that may wait, in cost.

    Attributes:
        queued_tokens: What waits, in cost.
    """

    def __init__(self, max_queued_tokens: int) -> None:
        self.max_queued_tokens = max_queued_tokens
        self.queued_tokens = 0
        # Not a plain dict: finding its first key takes longer the more were deleted before it.
        self._queues: dict[str, OrderedDict[Job, None]] = {}
        self._tokens: dict[str, int] = {}

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def has_room(self, cost: int) -> bool:
        """Whether this much more may wait."""
        return self.queued_tokens + cost <= self.max_queued_tokens

    def tokens_of(self, model: str) -> int:
        """What waits for one checkpoint, in cost."""
        return self._tokens.get(model, 0)

    def add(self, jobs: Iterable[Job]) -> None:
        """Let jobs wait; whoever calls has asked `has_room`."""
        for job in jobs:
            self._queues.setdefault(job.model, OrderedDict())[job] = None
            self._charge(job, job.cost)

    def remove(self, job: Job) -> bool:
        """Take a job out.

        Returns:
            Whether it was waiting.
        """
        queue = self._queues.get(job.model)
        if queue is None or job not in queue:
            return False
        del queue[job]
        self._charge(job, -job.cost)
        return True

    def oldest(self, model: str, now: float) -> Job | None:
        """The sentence whose turn it is; those whose deadline has passed are forgotten on the way."""
        queue = self._queues.get(model)
        while queue:
            job = next(iter(queue))
            if job.deadline > now:
                return job
            self.remove(job)
        return None

    def _charge(self, job: Job, cost: int) -> None:
        self.queued_tokens += cost
        self._tokens[job.model] = self._tokens.get(job.model, 0) + cost
