"""④ Queues the sentences of requests for the engines, and returns each request its hypotheses."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from app.admission.quota import MeasuredRate
from app.backend import Model
from app.errors import DeadlinePassedError, DrainingError, QueueFullError
from app.scheduling.backlog import Backlog, SentenceJob
from app.scheduling.dispatcher import Dispatcher
from app.scheduling.engine_batch import Outcome, StepResults, failure_reason
from app.scheduling.engine_worker import EngineWorker
from app.telemetry.metrics import Metrics
from app.telemetry.timings import current_timings
from model.decode_request import DecodeRequest, Hypothesis
from model.errors import TextTooLongError

# A request is given up at once if its predicted wait exceeds the time it has left by this factor.
_PREDICTION_MARGIN = 2.0
ModelRequest = tuple[Model, DecodeRequest]
"""A checkpoint, and a sentence that it is to decode."""
Results = list[list[Hypothesis]]


class ResultListener(Protocol):
    """Is told how translations grow; called on the event loop, so its methods must be quick."""

    def grew(self, index: int, token_ids: Sequence[int]) -> None:
        """The translation of sentence `index` is certain to begin with these tokens."""

    def finished(self, index: int, hypotheses: Sequence[Hypothesis]) -> None:
        """Sentence `index` has its hypotheses."""


class PendingRequest:
    """Waits until every sentence of a request has its hypotheses, or one has failed.

    Args:
        jobs: The sentences, at least one, in the client's order.
        listener: Is told how each grows.

    Attributes:
        jobs: As given.
        done: Resolves to the hypotheses of each sentence, or to the first failure.
    """

    def __init__(self, jobs: Sequence[SentenceJob], listener: ResultListener | None) -> None:
        self.jobs = jobs
        self.done: asyncio.Future[Results] = asyncio.get_running_loop().create_future()
        self._listener = listener
        # Without the sentences that have failed.
        self._indices = {job: index for index, job in enumerate(jobs)}
        self._results: dict[SentenceJob, list[Hypothesis]] = {}

    @property
    def unanswered(self) -> list[SentenceJob]:
        """The sentences without an outcome."""
        return [job for job in self._indices if job not in self._results]

    def grew(self, job: SentenceJob, token_ids: Sequence[int]) -> None:
        """Record that more tokens of a sentence are certain."""
        if self._listener is not None:
            self._listener.grew(self._indices[job], token_ids)

    def cancel(self, reason: Exception) -> None:
        """Fail, without waiting for the rest."""
        if not self.done.done():
            self.done.set_exception(reason)

    def finished(self, job: SentenceJob, result: Outcome) -> None:
        """Record the outcome of a sentence."""
        if not isinstance(result, list):
            del self._indices[job]
            self.cancel(result)
            return
        self._results[job] = result
        if self._listener is not None:
            self._listener.finished(self._indices[job], result)
        if len(self._results) == len(self.jobs) and not self.done.done():
            self.done.set_result([self._results[each] for each in self.jobs])


class Scheduler:
    """Queues sentences, lets the workers decode them, and returns each caller its own results.

    The dispatcher is the only place where the event loop and the workers' threads meet. Pending requests
    belong to the event loop.

    Args:
        workers: Number of threads.
        metrics: Where waiting, steps and cancellations are counted.
        max_queued_tokens: Highest total cost of the waiting sentences.
        fair_rows: Hypotheses that every client may have decoded at a time, however little the others want.
        on_device_lost: Called on the event loop when a device answers no more in this process.

    Attributes:
        workers: The threads.
    """

    def __init__(
        self,
        workers: int,
        metrics: Metrics,
        *,
        max_queued_tokens: int,
        fair_rows: int,
        on_device_lost: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        self._metrics = metrics
        self._on_device_lost = on_device_lost
        self._backlog = Backlog(max_queued_tokens, fair_rows=fair_rows)
        self._dispatcher = Dispatcher(self._backlog)
        self._rate = MeasuredRate(workers)
        self._pending: dict[SentenceJob, PendingRequest] = {}
        self.workers = [
            EngineWorker(
                index,
                self._dispatcher,
                on_taken=self._record_taken,
                on_stepped=self._record_step,
                on_device_lost=self._report_lost_device,
            )
            for index in range(workers)
        ]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_wake_due = False
        self._timer: asyncio.TimerHandle | None = None
        # What the workers have produced and the event loop has not seen.
        self._results: deque[StepResults] = deque()
        self._is_resolve_due = False
        self._is_draining = False

    def publish_metrics(self) -> None:
        """Show this scheduler's workers and queue in the metrics, in place of another scheduler's."""
        self._metrics.watch_queue(
            lambda: len(self._backlog),
            lambda: self._backlog.tokens.taken,
            max_tokens=self.max_queued_tokens,
            workers=len(self.workers),
        )

    def start(self) -> None:
        """Start the workers; results go to the running event loop."""
        self._loop = asyncio.get_running_loop()
        for worker in self.workers:
            worker.start()

    def set_fair_rows(self, rows: int) -> None:
        """Set how many hypotheses every client may have decoded at a time, however little the others want."""
        self._backlog.row_limit.minimum = rows

    @property
    def max_queued_tokens(self) -> int:
        """Highest total cost of the waiting sentences, and so the highest cost of one request."""
        return self._backlog.tokens.size

    def require_capacity(self, client: str, deadline: float) -> None:
        """Reject a request early that could not be queued or would be too late, before any work goes into it.

        Args:
            client: The client that asks.
            deadline: When its answer becomes worthless, seconds of the monotonic clock.

        Raises:
            DrainingError: If the process is shutting down.
            QueueFullError: If not even one token fits.
            DeadlinePassedError: If its turn would come after the deadline.
        """
        if self._is_draining:
            raise DrainingError
        if not self._backlog.tokens.fits(1, client):
            raise QueueFullError(self._rate.seconds_for(self._backlog.tokens.excess(1, client)))
        self._require_time(client, deadline)

    async def submit(
        self,
        sentences: Sequence[ModelRequest],
        deadline: float,
        listener: ResultListener | None = None,
        *,
        client: str = "",
    ) -> Results:
        """Decode sentences; cancelling the caller withdraws them, those that run within one step.

        Args:
            sentences: All of one request, each with its checkpoint, on which the caller holds a lease.
            deadline: When its answer becomes worthless, seconds of the monotonic clock.
            listener: Is told how they grow.
            client: The client that asks.

        Returns:
            Hypotheses of each sentence, best first.

        Raises:
            QueueFullError: If the queue has no capacity for them now.
            TextTooLongError: If they would not fit into an empty queue either.
            DrainingError: If the process is shutting down.
            DeadlinePassedError: If the deadline came first.
            TranslationError: If a sentence could not be decoded.
        """
        if not sentences:
            return []
        now = time.monotonic()
        is_streamed = listener is not None
        jobs = [
            SentenceJob(model, request, deadline, now, is_streamed, client) for model, request in sentences
        ]
        pending = self._enqueue(jobs, listener)
        self._watch_deadline(deadline)
        try:
            return await pending.done
        finally:
            self._withdraw(pending)
            taken = min((job.taken for job in jobs if job.taken is not None), default=None)
            current_timings().record_decoding(now, taken, time.monotonic())

    async def drain(self, seconds: float) -> None:
        """Reject new work, and wait until all queued work is answered, at most this long."""
        self._is_draining = True
        unanswered = {pending.done for pending in self._pending.values()}
        if unanswered:
            await asyncio.wait(unanswered, timeout=seconds)

    def cancel_all(self) -> None:
        """Reject new work, and fail all queued and running work: the process must end now."""
        self._is_draining = True
        for pending in set(self._pending.values()):
            pending.cancel(DrainingError())

    def stop(self, seconds: float) -> bool:
        """End the workers after the current call of their engine.

        Args:
            seconds: How long to wait for them.

        Returns:
            Whether all workers have ended, so that no thread uses the engines any more.
        """
        self._is_draining = True
        self._dispatcher.stop()
        until = time.monotonic() + seconds
        return all(worker.join(max(until - time.monotonic(), 0)) for worker in self.workers)

    def wait_until_unused(self, model: Model) -> None:
        """Block until no worker uses the engines of a model on which no request holds a lease."""
        self._dispatcher.wait_until_unused(model)

    def _record_taken(self, job: SentenceJob) -> None:
        """Record that a sentence has left the backlog; called by workers."""
        job.taken = time.monotonic()
        self._metrics.record_queue_wait(job.taken - job.arrival)

    def _record_step(self, results: StepResults, seconds: float) -> None:
        """Pass the results of an engine's call to the event loop; called by workers."""
        self._metrics.count_progress(results.progress)
        # Throughput with an empty queue says nothing about how long a queue takes.
        if self._backlog.tokens.taken:
            self._rate.record(sum(job.cost for job, _ in results.finished), seconds)
        for _, outcome in results.finished:
            if (reason := failure_reason(outcome)) is not None:
                self._metrics.count_failed_sentence(reason)
        if (results.finished or results.grown) and self._loop is not None:
            self._results.append(results)
            if not self._is_resolve_due:
                self._is_resolve_due = True
                self._loop.call_soon_threadsafe(self._resolve)

    def _report_lost_device(self, failure: Exception) -> None:
        """Pass the loss of a device to the event loop; called by workers."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._on_device_lost, failure)

    def _require_time(self, client: str, deadline: float) -> None:
        """Reject a request that has less than half of its predicted wait left."""
        # The wait of one client is only added up if the whole queue might take too long.
        longest = (deadline - time.monotonic()) * _PREDICTION_MARGIN
        may_be_late = self._rate.predict(self._backlog.tokens.taken) > longest
        if may_be_late and self._rate.predict(self._dispatcher.tokens_before(client)) > longest:
            raise DeadlinePassedError

    def _enqueue(self, jobs: Sequence[SentenceJob], listener: ResultListener | None) -> PendingRequest:
        cost = sum(job.cost for job in jobs)
        if self._is_draining:
            raise DrainingError
        if cost > self.max_queued_tokens:
            raise TextTooLongError("q", "MAX_QUEUED_TOKENS", self.max_queued_tokens, cost)
        pending = PendingRequest(jobs, listener)
        excess = self._dispatcher.put(jobs)
        if excess:
            raise QueueFullError(self._rate.seconds_for(excess))
        # Outcomes arrive through the event loop, so none can arrive before this.
        self._pending.update(dict.fromkeys(jobs, pending))
        if not self._is_wake_due:
            self._is_wake_due = True
            asyncio.get_running_loop().call_soon(self._wake)
        return pending

    def _watch_deadline(self, deadline: float) -> None:
        """Set the timer that all requests share to this deadline, unless it is set to an earlier one."""
        if self._timer is None or deadline < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_at(deadline, self._expire)

    def _expire(self) -> None:
        """Fail the requests whose deadline has passed, and wait for the next one."""
        self._timer, now = None, time.monotonic()
        for job, pending in self._pending.items():
            if job.deadline <= now:
                pending.cancel(DeadlinePassedError())
            else:
                self._watch_deadline(job.deadline)

    def _wake(self) -> None:
        """Wake the workers for all requests of an iteration of the event loop, which decode well together."""
        self._is_wake_due = False
        self._dispatcher.wake()

    def _withdraw(self, pending: PendingRequest) -> None:
        """Forget a request, and cancel its sentences that have no outcome."""
        for job in pending.jobs:
            del self._pending[job]
        pending.done.cancel()
        if unanswered := pending.unanswered:
            self._dispatcher.withdraw(pending.jobs)
            # The backlog has already removed sentences whose deadline passed.
            decoding = [job for job in unanswered if job.taken is not None]
            self._metrics.count_cancelled(queued=len(unanswered) - len(decoding), decoding=len(decoding))
            # The engines have worked on these: the rate does not fall with every client that leaves.
            if self._backlog.tokens.taken:
                self._rate.record(sum(job.cost for job in decoding), 0.0)

    def _resolve(self) -> None:
        """Give all results so far to their requests."""
        self._is_resolve_due = False
        while self._results:
            results = self._results.popleft()
            for job, token_ids in results.grown:
                if (pending := self._pending.get(job)) is not None:
                    pending.grew(job, token_ids)
            for job, result in results.finished:
                if (pending := self._pending.get(job)) is not None:
                    pending.finished(job, result)
