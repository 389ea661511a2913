"""④ → ⑤ The one thread that drives the engine: takes a batch, decodes it, hands the results back."""

import logging
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from app.backend import Backend, Outcome
from app.scheduling.backlog import Job
from model.decoding.observer import Observer
from model.errors import DecodingError, TranslationError

logger = logging.getLogger(__name__)


class WorkSource(Protocol):
    """Where the worker gets batches from and brings results to."""

    def next_batch(self) -> list[Job] | None:
        """Wait for work; None means that the thread should end."""

    def deliver(self, batch: Sequence[Job], outcomes: Sequence[Outcome], seconds: float) -> None:
        """Take the results of a batch, in its order."""


class Worker:
    """Owns the engine's thread. A batch that fails takes nothing with it but its own sentences.

    Args:
        backend: What decodes.
        source: Where batches come from.
        observer: Is told how long the parts of decoding take.
    """

    def __init__(self, backend: Backend, source: WorkSource, observer: Observer) -> None:
        self._backend = backend
        self._source = source
        self._observer = observer
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Begin to take batches."""
        self._thread.start()

    def join(self, timeout: float) -> None:
        """Wait for the thread to end, at most this many seconds."""
        self._thread.join(timeout)

    def _run(self) -> None:
        while (batch := self._source.next_batch()) is not None:
            began = time.monotonic()
            outcomes = self._decode(batch)
            self._source.deliver(batch, outcomes, time.monotonic() - began)

    def _decode(self, batch: Sequence[Job]) -> list[Outcome]:
        """Decode; after a failure each half alone, so that one bad sentence fails alone."""
        try:
            return self._backend.decode(batch[0].model, [job.request for job in batch], self._observer)
        except Exception as fault:
            # Anything may come out of an engine, and the thread must outlive it.
            if len(batch) > 1:
                middle = len(batch) // 2
                return self._decode(batch[:middle]) + self._decode(batch[middle:])
            return [_failure(fault)]


def _failure(fault: Exception) -> TranslationError:
    if isinstance(fault, TranslationError):
        return fault
    logger.error("decoding failed", exc_info=fault)
    return DecodingError("the sentence could not be decoded")
