"""④ Where the event loop leaves sentences and workers fetch them, under one lock.

Sentences of a checkpoint leave strictly in the fair order of its queue. A worker takes the first one if
its engine has room and if that does not lift it above an even share of all work; otherwise the first
waits for the worker that has least, which is called at once. Nobody polls or waits for company.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from app.scheduling.backlog import Backlog, SentenceJob


@dataclass(eq=False)
class WorkerSlot:
    """What the others know of one worker.

    Attributes:
        interrupt: Ends the step its engine is at, soon; may be called from any thread.
        condition: Notified when it is called while it has nothing to do.
        load: Cost of the sentences it has.
        is_called: Whether it was asked to look up, and has not done so yet.
        withdrawn: Sentences it has that nobody waits for any more.
        declined: By checkpoint, the sentence for which its engine had no room when it last looked.
    """

    interrupt: Callable[[], None]
    condition: threading.Condition
    load: int = 0
    is_called: bool = False
    withdrawn: list[SentenceJob] = field(default_factory=list)
    declined: dict[str, SentenceJob] = field(default_factory=dict)

    def call(self) -> None:
        """Make it look up, now or after the turn it is at; turns are short."""
        self.is_called = True
        self.condition.notify()

    def hurry(self) -> None:
        """Make it look up, now or after the step it is at."""
        self.interrupt()
        self.call()


class Dispatcher:
    """The backlog and the workers' desks; every method may be called from any thread.

    Args:
        backlog: What waits; guarded by the exchange from now on.
    """

    def __init__(self, backlog: Backlog) -> None:
        self._backlog = backlog
        self._lock = threading.Lock()
        self._slots: list[WorkerSlot] = []
        self._holders: dict[SentenceJob, WorkerSlot] = {}
        self._is_stopped = False

    def slot(self, interrupt: Callable[[], None]) -> WorkerSlot:
        """A desk for one more worker; all must have theirs before the first sentence arrives."""
        slot = WorkerSlot(interrupt, threading.Condition(self._lock))
        self._slots.append(slot)
        return slot

    def put(self, jobs: Sequence[SentenceJob]) -> int:
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

    def withdraw(self, jobs: Sequence[SentenceJob]) -> None:
        """Nobody waits for these any more: they are gone at once, or after the step they are in."""
        with self._lock:
            queued = [job for job in jobs if self._backlog.remove(job)]
            for job in jobs:
                if (slot := self._release(job)) is not None:
                    slot.withdrawn.append(job)
                    slot.hurry()
            self._call_for({job.model for job in queued})

    def wait(self, slot: WorkerSlot) -> list[SentenceJob] | None:
        """Wait until a worker has something to do; returns at once if it has.

        Returns:
            Sentences it is to drop; None when it is to end.
        """
        with self._lock:
            while not (self._is_stopped or slot.is_called or slot.load):
                slot.condition.wait()
            slot.is_called = False
            withdrawn, slot.withdrawn = slot.withdrawn, []
            return None if self._is_stopped else withdrawn

    def take(self, slot: WorkerSlot, model: str, fits: Callable[[SentenceJob], bool]) -> SentenceJob | None:
        """The first sentence of a checkpoint, if it is this worker's to decode.

        Args:
            slot: The worker's.
            model: The checkpoint.
            fits: Whether the worker's engine has room.
        """
        with self._lock:
            job = self._backlog.first(model, time.monotonic())
            if job is None:
                return None
            if fits(job):
                slot.declined.pop(model, None)
                if self._is_fair(slot, job):
                    self._backlog.take(job)
                    slot.load += job.cost
                    self._holders[job] = slot
                    return job
            else:
                slot.declined[model] = job
            self._call_for((model,))
        return None

    def finish(self, jobs: Iterable[SentenceJob]) -> None:
        """These have ended; who had them looks again before waiting, as there is room now."""
        with self._lock:
            for job in jobs:
                if (slot := self._release(job)) is not None:
                    slot.is_called = True

    def stop(self) -> None:
        """Let all workers end."""
        with self._lock:
            self._is_stopped = True
            for slot in self._slots:
                slot.call()

    def _is_fair(self, slot: WorkerSlot, job: SentenceJob) -> bool:
        """Whether a worker with the first sentence stays within an even share, or nobody has less.

        When all has been taken, loads differ by one sentence at most.
        """
        slots = self._who_may_take(job)
        loads = [each.load for each in slots]
        # What waits for its client's allowance is no work for anybody yet.
        waiting = job.cost if self._backlog.is_rationed else self._backlog.tokens_of(job.model)
        work = sum(loads) + waiting
        return len(slots) * (slot.load + job.cost) <= work or slot.load == min(loads)

    def _who_may_take(self, job: SentenceJob) -> list[WorkerSlot]:
        return [slot for slot in self._slots if slot.declined.get(job.model) is not job]

    def _call_for(self, models: Iterable[str]) -> None:
        """For each checkpoint, call the worker whose turn it is to take the first sentence.

        If all have declined it, whoever gets room first will see it after that step.
        """
        for model in models:
            job = self._backlog.first(model, time.monotonic())
            slots = self._who_may_take(job) if job is not None else []
            if slots:
                min(slots, key=lambda slot: slot.load).call()

    def _release(self, job: SentenceJob) -> WorkerSlot | None:
        slot = self._holders.pop(job, None)
        if slot is not None:
            slot.load -= job.cost
            self._backlog.give_back(job)
        return slot
