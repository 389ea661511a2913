"""④ → ⑤ The threads that step engines: sentences in, results out."""

import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

from app.backend import Model
from app.scheduling.backlog import SentenceJob
from app.scheduling.dispatcher import Dispatcher
from app.scheduling.engine_batch import EngineBatch, OomBackoff, StepResults
from model.errors import DeviceLostError

logger = logging.getLogger(__name__)

# By how much the priority of an engine's thread is lower than that of the event loop.
_NICENESS = 5


class EngineWorker:
    """A thread that steps its own engine of each checkpoint that has sentences for it.

    Between two calls of its engines it drops withdrawn sentences, takes sentences that fit, and reports
    results.

    Args:
        index: Which engine of a checkpoint is this worker's.
        dispatcher: Where sentences come from.
        on_taken: Called on the thread with each sentence that leaves the backlog.
        on_stepped: Called on the thread after each call of an engine, with its results and seconds.
        on_device_lost: Called on the thread, which then ends, when the device answers no more.
    """

    def __init__(
        self,
        index: int,
        dispatcher: Dispatcher,
        *,
        on_taken: Callable[[SentenceJob], None],
        on_stepped: Callable[[StepResults, float], None],
        on_device_lost: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        self._index = index
        # Of the checkpoints that have sentences here: an idle worker keeps no checkpoint in memory.
        self._batches: dict[Model, EngineBatch] = {}
        self._backoffs: WeakKeyDictionary[Model, OomBackoff] = WeakKeyDictionary()
        self._dispatcher = dispatcher
        self._on_taken = on_taken
        self._on_stepped = on_stepped
        self._on_device_lost = on_device_lost
        self._slot = dispatcher.add_worker(self._interrupt)
        self._thread = threading.Thread(target=self._run, name=f"engine-{index}", daemon=True)
        self._has_ended = False
        self._silent_since: float | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self, seconds: float | None = None) -> bool:
        """Wait for the thread to end, at most this long if that is given.

        Returns:
            Whether the thread has ended, or was never started.
        """
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def name(self) -> str:
        """Name of the thread."""
        return self._thread.name

    def silent_since(self) -> float | None:
        """When the worker last made a step, seconds of the monotonic clock.

        None while it has nothing to do; minus infinity once it has died.
        """
        has_died = self._thread.ident is not None and not (self._thread.is_alive() or self._has_ended)
        return -math.inf if has_died else self._silent_since

    def _interrupt(self) -> None:
        for batch in tuple(self._batches.values()):
            batch.interrupt()

    def _run(self) -> None:
        if sys.platform == "linux":
            # There, this is the priority of the thread. The event loop runs first: it refuses requests and
            # answers probes quickly even when the engines could use all cores (docs/journal.md).
            os.nice(_NICENESS)
        try:
            self._work()
        except Exception as fault:
            # The watchdog reports it too. The thread's own traceback would show what a client sent.
            logger.error("worker died", extra={"worker": self.name}, exc_info=fault)
            if isinstance(fault, DeviceLostError):
                self._on_device_lost(fault)
        else:
            self._silent_since, self._has_ended = None, True

    def _work(self) -> None:
        while True:
            self._silent_since = None
            work = self._dispatcher.wait(self._slot, self._batches)
            if work is None:
                return
            self._silent_since = time.monotonic()
            withdrawn, models = work
            for job in withdrawn:
                self._drop(job)
            for model in models:
                self._take(model)
            for model in tuple(self._batches):
                self._step(self._batches[model])
            self._batches = {model: batch for model, batch in self._batches.items() if not batch.is_idle}

    def _drop(self, job: SentenceJob) -> None:
        # The sentence may have ended in the step in which its client left.
        if job.model in self._batches:
            self._batches[job.model].drop(job)

    def _take(self, model: Model) -> None:
        while (job := self._dispatcher.take(self._slot, model, self._fits)) is not None:
            self._on_taken(job)
            self._batches[model].add(job)

    def _fits(self, job: SentenceJob) -> bool:
        """Returns whether a waiting sentence may join; while it waits, its request keeps the model loaded."""
        batch = self._batches.get(job.model)
        if batch is None:
            engine = job.model.engine(self._index)
            if engine is None:
                return False
            backoff = self._backoffs.get(job.model)
            if backoff is None:
                backoff = self._backoffs[job.model] = OomBackoff()
            batch = self._batches[job.model] = EngineBatch(engine, backoff)
        return batch.fits(job)

    def _step(self, batch: EngineBatch) -> None:
        if batch.is_idle:
            return
        self._silent_since = began = time.monotonic()
        results = batch.step()
        self._dispatcher.finish(job for job, _ in results.finished)
        self._on_stepped(results, time.monotonic() - began)
