"""④ The asynchronous face of the engines: submit sentences, await their hypotheses."""

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol

from app.admission.quota import MeasuredRate
from app.backend import Backend
from app.errors import DeadlinePassedError, DrainingError, QueueFullError
from app.scheduling.backlog import Backlog, SentenceJob
from app.scheduling.dispatcher import Dispatcher
from app.scheduling.engine_worker import EngineBatch, EngineWorker, Outcome, StepResults, failure_reason
from app.telemetry.metrics import Metrics
from app.telemetry.timings import current
from model.errors import TextTooLongError
from model.request import DecodeRequest, Hypothesis


class ResultListener(Protocol):
    """Wants to see translations grow; told on the event loop, so it must be quick."""

    def grew(self, index: int, token_ids: Sequence[int]) -> None:
        """The translation of sentence `index` is sure to begin so."""

    def finished(self, index: int, hypotheses: Sequence[Hypothesis]) -> None:
        """Sentence `index` is done."""


class PendingRequest:
    """Waits until every sentence has its hypotheses, or one has failed.

    Args:
        jobs: The sentences, at least one, in the client's order.
        listener: Is told about each on the way.

    Attributes:
        jobs: As given.
        done: Resolved with the hypotheses of each sentence, or with the first failure.
    """

    def __init__(self, jobs: Sequence[SentenceJob], listener: ResultListener | None) -> None:
        self.jobs = jobs
        self.done: asyncio.Future[list[list[Hypothesis]]] = asyncio.get_running_loop().create_future()
        self._listener = listener
        self._indices = {job: index for index, job in enumerate(jobs)}
        self._results: dict[SentenceJob, list[Hypothesis]] = {}

    @property
    def unanswered(self) -> int:
        """Sentences without an outcome."""
        return len(self._indices) - len(self._results)

    def grew(self, job: SentenceJob, token_ids: Sequence[int]) -> None:
        """More of a sentence is certain."""
        if self._listener is not None:
            self._listener.grew(self._indices[job], token_ids)

    def refuse(self, reason: Exception) -> None:
        """End without the rest."""
        if not self.done.done():
            self.done.set_exception(reason)

    def finished(self, job: SentenceJob, result: Outcome) -> None:
        """A sentence is done, or has failed."""
        if not isinstance(result, list):
            del self._indices[job]
            self.refuse(result)
            return
        self._results[job] = result
        if self._listener is not None:
            self._listener.finished(self._indices[job], result)
        if len(self._results) == len(self.jobs) and not self.done.done():
            self.done.set_result([self._results[each] for each in self.jobs])


# By how much the predicted wait must exceed what is left of a request's time for it to be given up at once.
_MARGIN = 2.0

Asked = tuple[str, DecodeRequest]
"""A sentence to decode, with the name of its checkpoint before it."""

Results = list[list[Hypothesis]]


class Scheduler:
    """Admits sentences, lets the workers take them one by one, and gives each caller its own back.

    The exchange is where the event loop and the workers' threads meet; calls are touched by the
    event loop only.

    Args:
        backend: What decodes.
        metrics: Where waiting, steps and cancellations are counted.
        max_queued_tokens: Most source tokens that may wait.
        fair_rows: Hypotheses that a client may have decoded at a time however little the others want.

    Attributes:
        workers: The threads.
    """

    def __init__(self, backend: Backend, metrics: Metrics, *, max_queued_tokens: int, fair_rows: int) -> None:
        self._metrics = metrics
        self._backlog = Backlog(max_queued_tokens, fair_rows=fair_rows)
        self._dispatcher = Dispatcher(self._backlog)
        self._rate = MeasuredRate(backend.workers)
        self._pending: dict[SentenceJob, PendingRequest] = {}
        self.workers = [self._worker(backend, index) for index in range(backend.workers)]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining = False

    def announce(self) -> None:
        """Tell of its workers and its queue, in the place of another scheduler's."""
        self._metrics.workers.set(len(self.workers))
        self._metrics.queued_tokens_limit.set(self.max_queued_tokens)
        self._metrics.watch_queue(lambda: len(self._backlog), lambda: self._backlog.queued_tokens)

    def start(self) -> None:
        """Begin to work, on the running event loop."""
        self._loop = asyncio.get_running_loop()
        for worker in self.workers:
            worker.start()

    @property
    def max_queued_tokens(self) -> int:
        """Most source tokens that may wait, and so the most of one request."""
        return self._backlog.max_queued_tokens

    def require_room(self, client: str, deadline: float) -> None:
        """Refuse early what could not be admitted or would be too late anyway, before any work goes into it.

        Args:
            client: Whose request it is.
            deadline: Seconds of the monotonic clock.

        Raises:
            DrainingError: If the process is about to end.
            QueueFullError: If not even one token fits.
            DeadlinePassedError: If its turn would come much too late.
        """
        if self._draining:
            raise DrainingError
        if not self._backlog.has_room(1, client):
            raise QueueFullError(self._rate.seconds_for(self._backlog.excess(1, client)))
        self._require_time(client, deadline)

    async def submit(
        self,
        sentences: Sequence[Asked],
        deadline: float,
        listener: ResultListener | None = None,
        *,
        client: str = "",
    ) -> Results:
        """Decode sentences; cancelling the caller takes them back, those that run within a step.

        Args:
            sentences: All of one client's request, each with the name of its checkpoint.
            deadline: Seconds of the monotonic clock.
            listener: Is told while they grow.
            client: Whose they are.

        Returns:
            Hypotheses of each sentence, best first.

        Raises:
            QueueFullError: If they do not fit beside what is waiting already.
            TextTooLongError: If they would not even fit alone.
            DrainingError: If the process is about to end.
            DeadlinePassedError: If the deadline came first.
            TranslationError: If a sentence could not be decoded.
        """
        if not sentences:
            return []
        now = time.monotonic()
        followed = listener is not None
        jobs = [SentenceJob(model, request, deadline, now, followed, client) for model, request in sentences]
        call = self._admit(jobs, listener)
        try:
            async with asyncio.timeout_at(deadline):
                return await call.done
        except TimeoutError:
            raise DeadlinePassedError from None
        finally:
            self._withdraw(call)
            taken = min((job.taken for job in jobs if job.taken is not None), default=None)
            current().has_decoded(now, taken, time.monotonic())

    async def drain(self, seconds: float) -> None:
        """Refuse new work and wait until what was admitted is answered, at most this long."""
        self._draining = True
        pending = {call.done for call in self._pending.values()}
        if pending:
            await asyncio.wait(pending, timeout=seconds)

    def refuse_all(self) -> None:
        """Refuse new work, and what was admitted too: the process must end now."""
        self._draining = True
        for call in set(self._pending.values()):
            call.refuse(DrainingError())

    def stop(self, seconds: float) -> bool:
        """End the workers' threads after the step they are at.

        Args:
            seconds: How long a step is waited for.

        Returns:
            Whether they have ended, so that nobody uses the engines any more.
        """
        self._draining = True
        self._dispatcher.stop()
        until = time.monotonic() + seconds
        return all(worker.join(max(until - time.monotonic(), 0)) for worker in self.workers)

    def taken(self, job: SentenceJob) -> None:
        """See WorkerCallbacks."""
        job.taken = time.monotonic()
        self._metrics.queue_wait.observe(job.taken - job.arrival)

    def advanced(self, turn: StepResults, seconds: float) -> None:
        """See WorkerCallbacks; what came of it goes to the event loop at once."""
        # An engine that has room for more says nothing about how long a queue takes.
        if self._backlog.queued_tokens:
            self._rate.record(sum(job.cost for job, _ in turn.finished), seconds)
        for reason in filter(None, (failure_reason(outcome) for _, outcome in turn.finished)):
            self._metrics.failed.labels(reason).inc()
        if (turn.finished or turn.grown) and self._loop is not None:
            self._loop.call_soon_threadsafe(self._resolve, turn)

    def _worker(self, backend: Backend, index: int) -> EngineWorker:
        names = [model.card.name for model in backend.models()]
        batches = {name: EngineBatch(backend.engine(name, index), self._metrics) for name in names}
        return EngineWorker(f"engine-{index}", batches, self._dispatcher, self)

    def _require_time(self, client: str, deadline: float) -> None:
        """What waits is added up by client only if all of it together might take too long."""
        most = (deadline - time.monotonic()) * _MARGIN
        may_be_late = self._rate.predict(self._backlog.queued_tokens) > most
        if may_be_late and self._rate.predict(self._dispatcher.tokens_before(client)) > most:
            raise DeadlinePassedError

    def _admit(self, jobs: Sequence[SentenceJob], listener: ResultListener | None) -> PendingRequest:
        cost = sum(job.cost for job in jobs)
        if self._draining:
            raise DrainingError
        if cost > self._backlog.max_queued_tokens:
            raise TextTooLongError("q", "MAX_QUEUED_TOKENS", self._backlog.max_queued_tokens, cost)
        call = PendingRequest(jobs, listener)
        excess = self._dispatcher.put(jobs)
        if excess:
            raise QueueFullError(self._rate.seconds_for(excess))
        # Outcomes come through the event loop, so none can be earlier than this.
        self._pending.update(dict.fromkeys(jobs, call))
        return call

    def _withdraw(self, call: PendingRequest) -> None:
        """Forget a call; its sentences without an outcome are cancelled."""
        for job in call.jobs:
            del self._pending[job]
        call.done.cancel()
        if call.unanswered:
            self._dispatcher.withdraw(call.jobs)
            # Those that were overdue have left the backlog before.
            queued = sum(job.taken is None for job in call.jobs)
            self._metrics.count_cancelled(queued=queued, decoding=call.unanswered - queued)

    def _resolve(self, turn: StepResults) -> None:
        for job, token_ids in turn.grown:
            if (call := self._pending.get(job)) is not None:
                call.grew(job, token_ids)
        for job, result in turn.finished:
            if (call := self._pending.get(job)) is not None:
                call.finished(job, result)
