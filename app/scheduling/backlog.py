"""④ What waits, in order of arrival, and which of it is decoded together: pure policy, no threads.

A sentence costs its source tokens times the rows it occupies. A batch is charged for its
padding too: rows × the longest source in it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from model.request import DecodeRequest


@dataclass(eq=False, slots=True)
class Job:
    """One sentence that waits; two jobs are the same only if they are one object.

    Attributes:
        model: Checkpoint that is to decode it.
        request: The sentence.
        deadline: When its answer becomes worthless, seconds of the monotonic clock.
        arrival: When it was admitted, seconds of the monotonic clock.
    """

    model: str
    request: DecodeRequest
    deadline: float
    arrival: float

    @property
    def rows(self) -> int:
        """Rows of the running batch that it will occupy."""
        return self.request.options.lanes

    @property
    def length(self) -> int:
        """Source tokens."""
        return len(self.request.source_ids)

    @property
    def cost(self) -> int:
        """Tokens it is charged for while it waits."""
        return self.rows * self.length


@dataclass(slots=True)
class Turn:
    """What leaves the backlog at once.

    Attributes:
        batch: Sentences of one checkpoint, to be decoded together.
        expired: Sentences whose deadline passed while they waited; nobody decodes them.
    """

    batch: list[Job] = field(default_factory=list)
    expired: list[Job] = field(default_factory=list)


class Backlog:
    """Sentences in order of arrival; not thread-safe, the clock is an argument.

    Args:
        max_queued_tokens: Most that may wait, in cost.
        max_batch_tokens: Most rows × longest source of a batch; a single sentence may exceed it.
    """

    def __init__(self, *, max_queued_tokens: int, max_batch_tokens: int) -> None:
        self.max_queued_tokens = max_queued_tokens
        self.max_batch_tokens = max_batch_tokens
        self.queued_tokens = 0
        self._jobs: dict[Job, None] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def has_room(self, cost: int) -> bool:
        """Whether this much more may wait."""
        return self.queued_tokens + cost <= self.max_queued_tokens

    def add(self, jobs: Iterable[Job]) -> None:
        """Let jobs wait; whoever calls has asked `has_room`."""
        for job in jobs:
            self._jobs[job] = None
            self.queued_tokens += job.cost

    def remove(self, jobs: Iterable[Job]) -> list[Job]:
        """Take back jobs that still wait.

        Returns:
            Those of them that were waiting; the others had their turn already.
        """
        waiting = [job for job in jobs if job in self._jobs]
        for job in waiting:
            del self._jobs[job]
            self.queued_tokens -= job.cost
        return waiting

    def take(self, now: float) -> Turn:
        """The next batch: the oldest sentence, and whatever fits beside it, oldest first.

        The oldest sentence always leaves, so none can be overtaken for ever.
        """
        turn = Turn(expired=self.remove([job for job in self._jobs if job.deadline <= now]))
        rows, longest = 0, 0
        for job in self._jobs:
            if turn.batch and job.model != turn.batch[0].model:
                continue
            padded = (rows + job.rows) * max(longest, job.length)
            if turn.batch and padded > self.max_batch_tokens:
                continue
            turn.batch.append(job)
            rows, longest = rows + job.rows, max(longest, job.length)
        self.remove(turn.batch)
        return turn
