"""④ The asynchronous face of the engines: submit sentences, await their hypotheses."""

import asyncio
import time
from collections.abc import Sequence

from app.backend import Backend
from app.errors import DeadlinePassedError, DrainingError, QueueFullError
from app.scheduling.backlog import Backlog, Job
from app.scheduling.call import Call, Follower
from app.scheduling.driver import Driver, Turn
from app.scheduling.exchange import Exchange
from app.scheduling.rate import MeasuredRate
from app.scheduling.worker import Worker
from app.telemetry import Metrics
from model.errors import TextTooLongError
from model.request import DecodeRequest, Hypothesis

Sentence = tuple[str, DecodeRequest]
Results = list[list[Hypothesis]]


class Scheduler:
    """Admits sentences, lets the workers take them one by one, and gives each caller its own back.

    The exchange is where the event loop and the workers' threads meet; calls are touched by the
    event loop only.

    Args:
        backend: What decodes.
        metrics: Where waiting, steps and cancellations are counted.
        max_queued_tokens: Most source tokens that may wait.
    """

    def __init__(self, backend: Backend, metrics: Metrics, *, max_queued_tokens: int) -> None:
        self._metrics = metrics
        self._backlog = Backlog(max_queued_tokens)
        self._exchange = Exchange(self._backlog)
        self._rate = MeasuredRate(backend.workers)
        self._calls: dict[Job, Call] = {}
        self._workers = [self._worker(backend, index) for index in range(backend.workers)]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining = False
        metrics.workers.set(backend.workers)
        metrics.watch_queue(lambda: len(self._backlog), lambda: self._backlog.queued_tokens)

    def start(self) -> None:
        """Begin to work, on the running event loop."""
        self._loop = asyncio.get_running_loop()
        for worker in self._workers:
            worker.start()

    def require_room(self) -> None:
        """Refuse early what could not be admitted anyway, before any work goes into it.

        Raises:
            DrainingError: If the process is about to end.
            QueueFullError: If not even one token fits.
        """
        if self._draining:
            raise DrainingError
        if not self._backlog.has_room(1):
            raise QueueFullError(self._rate.seconds_for(1))

    async def submit(
        self,
        sentences: Sequence[Sentence],
        deadline: float,
        follower: Follower | None = None,
        *,
        client: str = "",
    ) -> Results:
        """Decode sentences; cancelling the caller takes them back, those that run within a step.

        Args:
            sentences: All of one client's request, each with the name of its checkpoint.
            deadline: Seconds of the monotonic clock.
            follower: Is told while they grow.
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
        followed = follower is not None
        jobs = [Job(model, request, deadline, now, followed, client) for model, request in sentences]
        call = self._admit(jobs, follower)
        try:
            async with asyncio.timeout_at(deadline):
                return await call.done
        except TimeoutError:
            raise DeadlinePassedError from None
        finally:
            self._withdraw(call)

    async def drain(self, seconds: float) -> None:
        """Refuse new work and wait until what was admitted is answered, at most this long."""
        self._draining = True
        pending = {call.done for call in self._calls.values()}
        if pending:
            await asyncio.wait(pending, timeout=seconds)

    def stop(self) -> None:
        """End the workers' threads after the step they are at; their engines are free then."""
        self._draining = True
        self._exchange.stop()
        for worker in self._workers:
            worker.join()

    def taken(self, job: Job) -> None:
        """See Reports."""
        self._metrics.queue_wait.observe(time.monotonic() - job.arrival)

    def advanced(self, turn: Turn, seconds: float) -> None:
        """See Reports; what came of it goes to the event loop at once."""
        self._rate.record(sum(job.cost for job, _ in turn.finished), seconds)
        if (turn.finished or turn.grown) and self._loop is not None:
            self._loop.call_soon_threadsafe(self._resolve, turn)

    def _worker(self, backend: Backend, index: int) -> Worker:
        names = [model.card.name for model in backend.models()]
        drivers = {name: Driver(backend.engine(name, index), self._metrics) for name in names}
        return Worker(f"engine-{index}", drivers, self._exchange, self)

    def _admit(self, jobs: Sequence[Job], follower: Follower | None) -> Call:
        cost = sum(job.cost for job in jobs)
        if self._draining:
            raise DrainingError
        if cost > self._backlog.max_queued_tokens:
            raise TextTooLongError("q", "MAX_QUEUED_TOKENS", self._backlog.max_queued_tokens, cost)
        call = Call(jobs, follower)
        excess = self._exchange.put(jobs)
        if excess:
            raise QueueFullError(self._rate.seconds_for(excess))
        # Outcomes come through the event loop, so none can be earlier than this.
        self._calls.update(dict.fromkeys(jobs, call))
        return call

    def _withdraw(self, call: Call) -> None:
        """Forget a call; its sentences without an outcome are cancelled."""
        for job in call.jobs:
            del self._calls[job]
        call.done.cancel()
        if call.unanswered:
            queued = self._exchange.withdraw(call.jobs)
            self._metrics.count_cancelled(queued=queued, decoding=call.unanswered - queued)

    def _resolve(self, turn: Turn) -> None:
        for job, token_ids in turn.grown:
            if (call := self._calls.get(job)) is not None:
                call.grew(job, token_ids)
        for job, result in turn.finished:
            if (call := self._calls.get(job)) is not None:
                call.finished(job, result)
