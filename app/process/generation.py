"""One set of checkpoints in service: its backend, its scheduler and its service, from loading to the end."""

import logging

from app.backend import Backend
from app.background import in_background
from app.context import Context
from app.health.lifecycle import Phase
from app.scheduling.scheduler import Scheduler
from app.translation.service import TranslationService

logger = logging.getLogger(__name__)

# How long the steps at hand may take: while another generation serves, nobody waits for them; at the end of
# the process somebody does, and far more than a step takes is enough.
_PATIENT_SECONDS = 60.0
_STEP_SECONDS = 2.0
_HURRIED_SECONDS = 0.1

_FREE_ROWS_ON_GPU = 64


class Generation:
    """Serves what was loaded; a reload puts another one in its place.

    Args:
        backend: Loaded, warm and verified; closed at the end.
        context: What the application shares.

    Attributes:
        backend: As given.
        service: What translates with it.
    """

    def __init__(self, backend: Backend, context: Context) -> None:
        self.backend = backend
        self._context = context
        settings = context.settings
        self._scheduler = Scheduler(
            backend,
            context.metrics,
            max_queued_tokens=settings.max_queued_tokens,
            fair_rows=settings.fair_rows or _fair_rows(backend),
        )
        self.service = TranslationService(
            backend.models(),
            self._scheduler,
            context.metrics,
            pivots=settings.pivot == "on",
            retries=settings.retry_degenerate == "on",
        )

    async def start(self) -> None:
        """Work, and be watched.

        Raises:
            Exception: If that cannot be; it has let go of everything then.
        """
        self._context.watchdog.watch(self._scheduler.workers)
        self._context.lifecycle.refusers.add(self._scheduler.refuse_all)
        try:
            self._scheduler.start()
            await in_background(self.service.warm_up)
        except Exception:
            self._abandon()
            raise

    def announce(self) -> None:
        """Tell of its checkpoints, workers and queue, in the place of those before."""
        metrics, models = self._context.metrics, self.backend.models()
        self._scheduler.announce()
        metrics.watch_memory(self.backend.memory)
        metrics.describe_all(models)
        for model in models:
            logger.info("model loaded", extra={"model": model.card.name, "seconds": model.load_seconds})

    async def close(self, drain_seconds: float) -> None:
        """Take no more work, finish what is admitted, let go of the engines and their memory.

        Engines that are stuck in a step are left alone: nothing may be taken from under them.

        Args:
            drain_seconds: How long the work that was admitted may take.
        """
        await self._scheduler.drain(drain_seconds)
        if await in_background(lambda: self._scheduler.stop(self._patience)):
            await in_background(self.backend.close)
            self._context.watchdog.forget(self._scheduler.workers)
        self._context.lifecycle.refusers.discard(self._scheduler.refuse_all)

    def _abandon(self) -> None:
        """Let go of everything at once: there may be no thread to do it in, and no worker has work."""
        if self._scheduler.stop(_STEP_SECONDS):
            self.backend.close()
            self._context.watchdog.forget(self._scheduler.workers)
        self._context.lifecycle.refusers.discard(self._scheduler.refuse_all)

    @property
    def _patience(self) -> float:
        lifecycle = self._context.lifecycle
        if lifecycle.is_cut_short:
            return _HURRIED_SECONDS
        return _STEP_SECONDS if lifecycle.phase is Phase.DRAINING else _PATIENT_SECONDS


def _fair_rows(backend: Backend) -> int:
    """Rows that hardly slow another client down.

    On a CPU, what keeps all workers but one busy; on a GPU, where a step with few rows takes as long as one
    with dozens, as many as that.
    """
    models = backend.models()
    if any(model.device != "cpu" for model in models):
        return _FREE_ROWS_ON_GPU
    return max(model.card.decoding.lanes for model in models) * max(backend.workers - 1, 1)
