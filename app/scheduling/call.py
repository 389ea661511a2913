"""④ ⑥ One client's sentences on their way through the engines; the event loop only."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from app.scheduling.backlog import Job
from app.scheduling.failures import Outcome
from model.request import Hypothesis


class Follower(Protocol):
    """Wants to see translations grow; told on the event loop, so it must be quick."""

    def grew(self, index: int, token_ids: Sequence[int]) -> None:
        """The translation of sentence `index` is sure to begin so."""

    def finished(self, index: int, hypotheses: Sequence[Hypothesis]) -> None:
        """Sentence `index` is done."""


class Call:
    """Waits until every sentence has its hypotheses, or one has failed.

    Args:
        jobs: The sentences, at least one, in the client's order.
        follower: Is told about each on the way.

    Attributes:
        jobs: As given.
        done: Resolved with the hypotheses of each sentence, or with the first failure.
    """

    def __init__(self, jobs: Sequence[Job], follower: Follower | None) -> None:
        self.jobs = jobs
        self.done: asyncio.Future[list[list[Hypothesis]]] = asyncio.get_running_loop().create_future()
        self._follower = follower
        self._indices = {job: index for index, job in enumerate(jobs)}
        self._results: dict[Job, list[Hypothesis]] = {}

    @property
    def unanswered(self) -> int:
        """Sentences without an outcome."""
        return len(self._indices) - len(self._results)

    def grew(self, job: Job, token_ids: Sequence[int]) -> None:
        """More of a sentence is certain."""
        if self._follower is not None:
            self._follower.grew(self._indices[job], token_ids)

    def refuse(self, reason: Exception) -> None:
        """End without the rest."""
        if not self.done.done():
            self.done.set_exception(reason)

    def finished(self, job: Job, result: Outcome) -> None:
        """A sentence is done, or has failed."""
        if not isinstance(result, list):
            del self._indices[job]
            self.refuse(result)
            return
        self._results[job] = result
        if self._follower is not None:
            self._follower.finished(self._indices[job], result)
        if len(self._results) == len(self.jobs) and not self.done.done():
            self.done.set_result([self._results[each] for each in self.jobs])
