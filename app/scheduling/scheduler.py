"""④ The asynchronous face of the engine: submit sentences, await their hypotheses."""

import asyncio
import threading
import time
from collections.abc import Sequence

from app.backend import Backend, Outcome
from app.errors import DeadlinePassedError, DrainingError, QueueFullError
from app.scheduling.backlog import Backlog, Job
from app.scheduling.rate import MeasuredRate
from app.scheduling.worker import Worker
from app.telemetry import Metrics
from model.errors import TextTooLongError, TranslationError
from model.request import DecodeRequest, Hypothesis

Sentence = tuple[str, DecodeRequest]
Results = list[list[Hypothesis]]


class Scheduler:
    """Admits sentences, lets the worker take them in batches, and gives each caller its own back.

    The backlog is shared between the event loop and the worker's thread, under one lock;
    futures are touched by the event loop only.

    Args:
        backend: What decodes.
        metrics: Where waiting, batches and cancellations are counted.
        max_queued_tokens: Most source tokens that may wait.
        max_batch_tokens: Most source tokens of a batch, padding included.
    """

    def __init__(
        self, backend: Backend, metrics: Metrics, *, max_queued_tokens: int, max_batch_tokens: int
    ) -> None:
        self._metrics = metrics
        self._backlog = Backlog(max_queued_tokens=max_queued_tokens, max_batch_tokens=max_batch_tokens)
        self._changed = threading.Condition()
        self._answers: dict[Job, asyncio.Future[list[Hypothesis]]] = {}
        self._rate = MeasuredRate()
        self._worker = Worker(backend, self, metrics)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining = False
        self._stopped = False
        metrics.watch_queue(lambda: len(self._backlog), lambda: self._backlog.queued_tokens)

    def start(self) -> None:
        """Begin to work, on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._worker.start()

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

    async def submit(self, sentences: Sequence[Sentence], deadline: float) -> Results:
        """Decode sentences; cancelling the caller takes back those that still wait.

        Args:
            sentences: All of one client's request, each with the name of its checkpoint.
            deadline: Seconds of the monotonic clock.

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
        jobs = [Job(model, request, deadline, now) for model, request in sentences]
        self._admit(jobs)
        try:
            async with asyncio.timeout_at(deadline):
                return list(await asyncio.gather(*(self._answers[job] for job in jobs)))
        except TimeoutError:
            raise DeadlinePassedError from None
        finally:
            self._withdraw(jobs)

    async def drain(self, seconds: float) -> None:
        """Refuse new work and wait until what was admitted is answered, at most this long."""
        self._draining = True
        pending = [future for future in self._answers.values() if not future.done()]
        if pending:
            await asyncio.wait(pending, timeout=seconds)

    def stop(self) -> None:
        """End the worker's thread after the batch it is at."""
        with self._changed:
            self._draining = self._stopped = True
            self._changed.notify_all()
        self._worker.join(timeout=5)

    def _admit(self, jobs: Sequence[Job]) -> None:
        cost = sum(job.cost for job in jobs)
        if self._draining:
            raise DrainingError
        if cost > self._backlog.max_queued_tokens:
            raise TextTooLongError("q", "MAX_QUEUED_TOKENS", self._backlog.max_queued_tokens, cost)
        with self._changed:
            if not self._backlog.has_room(cost):
                excess = self._backlog.queued_tokens + cost - self._backlog.max_queued_tokens
                raise QueueFullError(self._rate.seconds_for(excess))
            for job in jobs:
                self._answers[job] = asyncio.get_running_loop().create_future()
            self._backlog.add(jobs)
            self._changed.notify()

    def _withdraw(self, jobs: Sequence[Job]) -> None:
        """Forget jobs; those without an answer are cancelled, and never decoded if they still wait."""
        with self._changed:
            queued = self._backlog.remove(jobs)
        unanswered = 0
        for job in jobs:
            future = self._answers.pop(job)
            unanswered += not future.done() or future.cancelled()
            future.cancel()
        self._metrics.count_cancelled(queued=len(queued), decoding=unanswered - len(queued))

    def next_batch(self) -> list[Job] | None:
        """Wait for work; called by the worker."""
        with self._changed:
            while not self._stopped:
                turn = self._backlog.take(time.monotonic())
                if turn.batch:
                    self._note_start(turn.batch)
                    return turn.batch
                # Expired sentences need no word to anyone: their caller's own timeout answers.
                self._changed.wait()
        return None

    def _note_start(self, batch: Sequence[Job]) -> None:
        now = time.monotonic()
        for job in batch:
            self._metrics.queue_wait.observe(now - job.arrival)
        self._metrics.batch_sentences.observe(len(batch))
        self._metrics.batch_rows.observe(sum(job.rows for job in batch))

    def deliver(self, batch: Sequence[Job], outcomes: Sequence[Outcome], seconds: float) -> None:
        """Hand results to the event loop; called by the worker."""
        self._rate.record(sum(job.cost for job in batch), seconds)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._resolve, batch, outcomes)

    def _resolve(self, batch: Sequence[Job], outcomes: Sequence[Outcome]) -> None:
        for job, outcome in zip(batch, outcomes, strict=True):
            future = self._answers.get(job)
            if future is None or future.done():
                continue
            if isinstance(outcome, TranslationError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
