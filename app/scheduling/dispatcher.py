"""④ Where the event loop leaves sentences and workers fetch them, under one lock.

Sentences of a checkpoint leave strictly in the fair order of its queue. A worker takes the first one if
its engine has room and if that does not lift it above an even share of all work; otherwise the first
waits for the worker that has least, which is called at once. Nobody polls or waits for company.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from app.scheduling.backlog import Backlog, Job


@dataclass(eq=False)
class Desk:
    """What the others know of one worker.

    Attributes:
        interrupt: Ends the step its engine is at, soon; may be called from any thread.
        bell: Rings when it is called while it has nothing to do.
        load: Cost of the sentences it has.
        is_called: Whether it was asked to look up, and has not done so yet.
        withdrawn: Sentences it has that nobody waits for any more.
        declined: By checkpoint, the sentence for which its engine had no room when it last looked.
    """

    interrupt: Callable[[], None]
    bell: threading.Condition
    load: int = 0
    is_called: bool = False
    withdrawn: list[Job] = field(default_factory=list)
    declined: dict[str, Job] = field(default_factory=dict)

    def call(self) -> None:
        """Make it look up, now or after the turn it is at; turns are short."""
        self.is_called = True
        self.bell.notify()

    def hurry(self) -> None:
        """Make it look up, now or after the step it is at."""
        self.interrupt()
        self.call()


class Exchange:
    """The backlog and the workers' desks; every method may be called from any thread.

    Args:
        backlog: What waits; guarded by the exchange from now on.
    """

    def __init__(self, backlog: Backlog) -> None:
        self._backlog = backlog
        self._lock = threading.Lock()
        self._desks: list[Desk] = []
        self._holders: dict[Job, Desk] = {}
        self._is_stopped = False

    def desk(self, interrupt: Callable[[], None]) -> Desk:
        """A desk for one more worker; all must have theirs before the first sentence arrives."""
        desk = Desk(interrupt, threading.Condition(self._lock))
        self._desks.append(desk)
        return desk

    def put(self, jobs: Sequence[Job]) -> int:
        """Let sentences of one client wait, all of them or none.

        Args:
            jobs: At least one.

        Returns:
            0, or how much must leave the backlog before there is room for them, in cost.
        """
        cost, client = sum(job.cost for job in jobs), jobs[0].client
        with self._lock:
            if not self._backlog.has_room(cost, client):
                return self._backlog.excess(cost, client)
            self._backlog.add(jobs)
            self._call_for({job.model for job in jobs})
        return 0

    def tokens_before(self, client: str) -> int:
        """What leaves before the next sentence of a client would, in cost."""
        with self._lock:
            return self._backlog.tokens_before(client)

    def withdraw(self, jobs: Sequence[Job]) -> None:
        """Nobody waits for these any more: they are gone at once, or after the step they are in."""
        with self._lock:
            queued = [job for job in jobs if self._backlog.remove(job)]
            for job in jobs:
                if (desk := self._release(job)) is not None:
                    desk.withdrawn.append(job)
                    desk.hurry()
            self._call_for({job.model for job in queued})

    def wait(self, desk: Desk) -> list[Job] | None:
        """Wait until a worker has something to do; returns at once if it has.

        Returns:
            Sentences it is to drop; None when it is to end.
        """
        with self._lock:
            while not (self._is_stopped or desk.is_called or desk.load):
                desk.bell.wait()
            desk.is_called = False
            withdrawn, desk.withdrawn = desk.withdrawn, []
            return None if self._is_stopped else withdrawn

    def take(self, desk: Desk, model: str, fits: Callable[[Job], bool]) -> Job | None:
        """The first sentence of a checkpoint, if it is this worker's to decode.

        Args:
            desk: The worker's.
            model: The checkpoint.
            fits: Whether the worker's engine has room.
        """
        with self._lock:
            job = self._backlog.first(model, time.monotonic())
            if job is None:
                return None
            if fits(job):
                desk.declined.pop(model, None)
                if self._is_fair(desk, job):
                    self._backlog.take(job)
                    desk.load += job.cost
                    self._holders[job] = desk
                    return job
            else:
                desk.declined[model] = job
            self._call_for((model,))
        return None

    def finish(self, jobs: Iterable[Job]) -> None:
        """These have ended; who had them looks again before waiting, as there is room now."""
        with self._lock:
            for job in jobs:
                if (desk := self._release(job)) is not None:
                    desk.is_called = True

    def stop(self) -> None:
        """Let all workers end."""
        with self._lock:
            self._is_stopped = True
            for desk in self._desks:
                desk.call()

    def _is_fair(self, desk: Desk, job: Job) -> bool:
        """Whether a worker with the first sentence stays within an even share, or nobody has less.

        When all has been taken, loads differ by one sentence at most.
        """
        desks = self._who_may_take(job)
        loads = [each.load for each in desks]
        # What waits for its client's allowance is no work for anybody yet.
        waiting = job.cost if self._backlog.is_rationed else self._backlog.tokens_of(job.model)
        work = sum(loads) + waiting
        return len(desks) * (desk.load + job.cost) <= work or desk.load == min(loads)

    def _who_may_take(self, job: Job) -> list[Desk]:
        return [desk for desk in self._desks if desk.declined.get(job.model) is not job]

    def _call_for(self, models: Iterable[str]) -> None:
        """For each checkpoint, call the worker whose turn it is to take the first sentence.

        If all have declined it, whoever gets room first will see it after that step.
        """
        for model in models:
            job = self._backlog.first(model, time.monotonic())
            desks = self._who_may_take(job) if job is not None else []
            if desks:
                min(desks, key=lambda desk: desk.load).call()

    def _release(self, job: Job) -> Desk | None:
        desk = self._holders.pop(job, None)
        if desk is not None:
            desk.load -= job.cost
            self._backlog.give_back(job)
        return desk
