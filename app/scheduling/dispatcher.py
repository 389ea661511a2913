"""④ Hands the sentences of the backlog to the workers, under one lock.

The sentences of a checkpoint leave strictly in the fair order of its queue. A worker takes the first one if
its engine has capacity and the sentence does not lift the worker above an even share of all work. Otherwise
the sentence waits for the worker with the least load, which is woken at once. Workers never poll, and a
sentence never waits for a batch to fill.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence

from app.backend import Model
from app.scheduling.backlog import Backlog, SentenceJob


class WorkerSlot:
    """The dispatcher's record of one worker. Only the dispatcher calls it, holding its lock.

    Args:
        interrupt: Makes the current call of the worker's engine return soon; thread-safe.
        lock: The dispatcher's.

    Attributes:
        load: Cost of the sentences that the worker holds.
        is_woken: Whether the worker was woken and has not looked at the backlog since.
        models: Checkpoints whose engines the worker may be using.
        declined: By checkpoint, the sentence for which the engine had no room when the worker last looked.
    """

    def __init__(self, interrupt: Callable[[], None], lock: threading.Lock) -> None:
        self.load = 0
        self.is_woken = False
        self.models: set[Model] = set()
        self.declined: dict[Model, SentenceJob] = {}
        self._interrupt = interrupt
        self._condition = threading.Condition(lock)
        self._withdrawn: list[SentenceJob] = []

    def wake(self) -> None:
        """Make the worker look at the backlog, now or after the current call of its engine."""
        self.is_woken = True
        self._condition.notify()

    def wait(self) -> None:
        """Block until the worker is woken; returns at once if it holds sentences."""
        while not (self.is_woken or self.load):
            self._condition.wait()
        self.is_woken = False

    def assign(self, job: SentenceJob) -> None:
        """Give a sentence to the worker."""
        self.load += job.cost
        self.models.add(job.model)

    def release(self, job: SentenceJob) -> None:
        """Take a sentence from the worker, which looks at the backlog again before it waits."""
        self.load -= job.cost
        self.is_woken = True

    def withdraw(self, job: SentenceJob) -> None:
        """Take a sentence from the worker before its end; the worker drops it after the current step."""
        self._withdrawn.append(job)
        self._interrupt()
        self.release(job)
        self.wake()

    def take_withdrawn(self) -> list[SentenceJob]:
        """The sentences that were withdrawn since the last call."""
        withdrawn, self._withdrawn = self._withdrawn, []
        return withdrawn


class Dispatcher:
    """The backlog and one slot for each worker; every method is thread-safe.

    Args:
        backlog: The waiting sentences; only the dispatcher's lock guards them from now on.
    """

    def __init__(self, backlog: Backlog) -> None:
        self._backlog = backlog
        self._lock = threading.Lock()
        self._unused = threading.Condition(self._lock)
        self._slots: list[WorkerSlot] = []
        self._holders: dict[SentenceJob, WorkerSlot] = {}
        self._is_stopped = False

    def add_worker(self, interrupt: Callable[[], None]) -> WorkerSlot:
        """The slot of one more worker; all workers must have theirs before the first sentence arrives.

        Args:
            interrupt: Makes the current call of the worker's engine return soon; thread-safe.
        """
        slot = WorkerSlot(interrupt, self._lock)
        self._slots.append(slot)
        return slot

    def put(self, jobs: Sequence[SentenceJob]) -> int:
        """Queue sentences of one client, all of them or none; `wake` has to follow.

        Args:
            jobs: At least one.

        Returns:
            0, or the cost that must leave the backlog before there is capacity for them.
        """
        cost, client = sum(job.cost for job in jobs), jobs[0].client
        with self._lock:
            if not self._backlog.tokens.fits(cost, client):
                return self._backlog.tokens.excess(cost, client)
            self._backlog.add(jobs)
        return 0

    def wake(self) -> None:
        """Wake workers for the sentences that wait: once for all those that were queued together."""
        with self._lock:
            self._wake_for(self._backlog.models)

    def tokens_before(self, client: str) -> int:
        """The cost that leaves the backlog before the next sentence of a client would."""
        with self._lock:
            return self._backlog.tokens_before(client)

    def withdraw(self, jobs: Sequence[SentenceJob]) -> None:
        """Drop sentences: those that wait at once, those that run after their current step."""
        with self._lock:
            queued = [job for job in jobs if self._backlog.remove(job)]
            for job in jobs:
                if (slot := self._release(job)) is not None:
                    slot.withdraw(job)
            self._wake_for({job.model for job in queued})

    def wait(
        self, slot: WorkerSlot, used: Iterable[Model]
    ) -> tuple[list[SentenceJob], tuple[Model, ...]] | None:
        """Block until a worker has something to do.

        Args:
            slot: The worker's.
            used: Checkpoints whose engines hold sentences; the worker uses no other engine.

        Returns:
            The withdrawn sentences that the worker is to drop, and the checkpoints that sentences wait for;
            None if the worker is to end.
        """
        with self._lock:
            slot.models = set(used)
            self._unused.notify_all()
            if not self._is_stopped:
                slot.wait()
            return None if self._is_stopped else (slot.take_withdrawn(), self._backlog.models)

    def wait_until_unused(self, model: Model) -> None:
        """Block until no worker uses the engines of a checkpoint, for which no sentence may arrive any more.

        Sentences that were withdrawn stay in their engine until the end of its current call.
        """
        with self._lock:
            self._unused.wait_for(lambda: not any(model in slot.models for slot in self._slots))

    def take(self, slot: WorkerSlot, model: Model, fits: Callable[[SentenceJob], bool]) -> SentenceJob | None:
        """The first sentence of a checkpoint, if this worker is to decode it.

        Args:
            slot: The worker's.
            model: The checkpoint.
            fits: Whether the worker's engine has capacity.
        """
        with self._lock:
            job = self._backlog.first(model, time.monotonic())
            if job is None:
                return None
            if fits(job):
                slot.declined.pop(model, None)
                if self._is_fair(slot, job):
                    self._backlog.take(job)
                    slot.assign(job)
                    self._holders[job] = slot
                    return job
            else:
                slot.declined[model] = job
            self._wake_for((model,))
        return None

    def finish(self, jobs: Iterable[SentenceJob]) -> None:
        """Record that sentences have ended; their worker looks at the backlog again before it waits."""
        with self._lock:
            for job in jobs:
                if (slot := self._release(job)) is not None:
                    slot.release(job)

    def stop(self) -> None:
        """End all workers after the current call of their engine."""
        with self._lock:
            self._is_stopped = True
            for slot in self._slots:
                slot.wake()

    def _is_fair(self, slot: WorkerSlot, job: SentenceJob) -> bool:
        """Returns whether a worker may take a sentence: within an even share, or with the least load already.

        Once all sentences are taken, the loads differ by one sentence at most.
        """
        candidates = self._candidates(job)
        loads = [each.load for each in candidates]
        # While rows are rationed, sentences that wait for their client's row limit are no work yet.
        waiting = job.cost if self._backlog.is_rationed else self._backlog.tokens_of(job.model)
        work = sum(loads) + waiting
        return len(candidates) * (slot.load + job.cost) <= work or slot.load == min(loads)

    def _candidates(self, job: SentenceJob) -> list[WorkerSlot]:
        return [slot for slot in self._slots if slot.declined.get(job.model) is not job]

    def _wake_for(self, models: Iterable[Model]) -> None:
        """Wake the worker that is to take the first sentence of each checkpoint.

        If every worker has declined the sentence, the first worker that gains capacity sees it next.
        """
        for model in models:
            job = self._backlog.first(model, time.monotonic())
            candidates = self._candidates(job) if job is not None else []
            if candidates:
                min(candidates, key=lambda slot: slot.load).wake()

    def _release(self, job: SentenceJob) -> WorkerSlot | None:
        """The slot of the worker that held a sentence until now; its rows are free again."""
        slot = self._holders.pop(job, None)
        if slot is not None:
            self._backlog.give_back(job)
        return slot
