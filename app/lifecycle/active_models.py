"""The models in service: loaded at the start, listed again by a reload, and closed at the end."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from app.backend import Backend, Model
from app.background import in_background
from app.lifecycle.phase import InFlightEpoch, Lifecycle
from app.lifecycle.processes import ServiceProcess
from app.lifecycle.registry import ModelRegistry
from app.lifecycle.watchdog import Watchdog
from app.memory import reclaim_memory
from app.scheduling.scheduler import Scheduler
from app.settings import Settings
from app.telemetry.metrics import Metrics
from app.translation.service import TranslationService
from model.errors import TranslationError

logger = logging.getLogger(__name__)

# How long to wait for the current calls of the engines at the end of the process, and at the end of a process
# that must end at once. A call takes a few milliseconds.
_STEP_SECONDS = 2.0
_FORCED_SECONDS = 0.1
_FREE_ROWS_ON_GPU = 64

Connect = Callable[[], Backend]
"""Makes the backend; blocks."""


class ActiveModels:
    """Starts the workers and the registry of models, and keeps its list up to date.

    Args:
        connect: Makes the backend.
        settings: All settings.
        metrics: Where everything is counted.
        lifecycle: Learns whether loading succeeded, and tells which requests are in flight.
        watchdog: Watches the workers.
        serve: Called with the service that answers requests from now on.
        process: This process among several, which serve the same models; None if it is the only one.
    """

    def __init__(
        self,
        connect: Connect,
        *,
        settings: Settings,
        metrics: Metrics,
        lifecycle: Lifecycle,
        watchdog: Watchdog,
        serve: Callable[[TranslationService], None],
        process: ServiceProcess | None = None,
    ) -> None:
        self._connect = connect
        self._settings = settings
        self._metrics = metrics
        self._lifecycle = lifecycle
        self._watchdog = watchdog
        self._serve = serve
        self._process = process
        self._registry: ModelRegistry | None = None
        self._scheduler: Scheduler | None = None
        self._earlier: InFlightEpoch | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load the pinned models and become ready; on a failure the lifecycle keeps it, and the process ends.

        Failures that a person can act on are not logged here: the server reports them in one line.
        """
        self._watching = asyncio.create_task(self._watchdog.run())
        try:
            await self._start()
        except Exception as failure:
            if not isinstance(failure, TranslationError):
                logger.error("the model could not be loaded", exc_info=failure)
            self._lifecycle.fail(failure)

    async def _start(self) -> None:
        settings = self._settings
        backend = await in_background(self._connect)
        scheduler = Scheduler(
            backend.workers,
            self._metrics,
            max_queued_tokens=settings.max_queued_tokens,
            fair_rows=settings.fair_rows,
            on_device_lost=self._end,
        )
        registry = self._registry = ModelRegistry(
            backend,
            self._metrics,
            pinned=settings.pinned,
            max_bytes=settings.max_model_bytes,
            idle_seconds=settings.model_idle_seconds,
            wait_until_unused=scheduler.wait_until_unused,
            agree=self._agree,
        )
        await registry.update()
        self._metrics.watch("gpu_memory_bytes", backend.memory)
        self._metrics.watch("cuda_graphs", backend.graphs)
        scheduler.publish_metrics()
        service = self._new_service(registry, scheduler)
        self._scheduler = scheduler
        self._watchdog.watch(scheduler.workers)
        self._lifecycle.cancel_callbacks |= {scheduler.cancel_all, registry.cancel_all}
        scheduler.start()
        await in_background(reclaim_memory)
        if self._process is not None:
            await self._process.become_ready()
        self._serve(service)

    async def replace(self) -> bool:
        """List the models again; once the new ones are loaded and verified, they answer new requests.

        Returns:
            Whether the list has changed and `retire` is due; otherwise nothing has changed.

        Raises:
            Exception: Why listing or loading failed; the current models go on.
        """
        registry, scheduler = self._registry, self._scheduler
        if registry is None or scheduler is None or not await registry.update():
            return False
        self._serve(self._new_service(registry, scheduler))
        self._earlier = self._lifecycle.start_epoch()
        return True

    async def retire(self) -> None:
        """Drop the removed models once the requests that began before are answered."""
        if self._earlier is not None and self._registry is not None:
            earlier, self._earlier = self._earlier, None
            await earlier.wait()
            self._registry.drop_removed()

    async def stop(self) -> None:
        """Reject new work, finish the accepted work, and free all memory.

        Engines that are stuck in a step are left alone: their memory is still in use.
        """
        self._lifecycle.drain()
        if self._watching is not None:
            self._watching.cancel()
        has_ended = self._scheduler is None or await self._stop_workers(self._scheduler)
        if has_ended and self._registry is not None:
            self._registry.close()
            self._lifecycle.cancel_callbacks.discard(self._registry.cancel_all)

    async def _stop_workers(self, scheduler: Scheduler) -> bool:
        """Whether all workers have ended."""
        await scheduler.drain(self._settings.drain_seconds)
        patience = _FORCED_SECONDS if self._lifecycle.is_forced else _STEP_SECONDS
        try:
            has_ended = await in_background(lambda: scheduler.stop(patience))
        except RuntimeError:  # without a thread to wait in
            has_ended = scheduler.stop(patience)
        self._lifecycle.cancel_callbacks.discard(scheduler.cancel_all)
        if has_ended:
            self._watchdog.forget(scheduler.workers)
        return has_ended

    def _end(self, failure: Exception) -> None:
        """Fail what is in flight, and have the server end the process: only a new one can go on."""
        self._lifecycle.fail(failure)
        self._lifecycle.cancel_work()

    def describe(self) -> dict[str, str]:
        """Names and versions of the current models, as log fields."""
        models = self._registry.models if self._registry is not None else ()
        return {
            "model": ", ".join(model.card.name for model in models),
            "version": ", ".join(model.version for model in models),
        }

    async def _agree(self, models: Sequence[Model]) -> None:
        if self._process is not None:
            await self._process.agree(f"{model.card.name} {model.checksum}" for model in models)

    def _new_service(self, registry: ModelRegistry, scheduler: Scheduler) -> TranslationService:
        """The service of the models that are listed now."""
        models, settings = registry.models, self._settings
        if not settings.fair_rows:
            scheduler.set_fair_rows(_fair_rows(registry, len(scheduler.workers)))
        return TranslationService(
            models,
            registry,
            scheduler,
            self._metrics,
            pivots=settings.pivot == "on",
            retries=settings.retry_degenerate == "on",
        )


def _fair_rows(registry: ModelRegistry, workers: int) -> int:
    """Rows that hardly slow another client down.

    On a CPU that is as many as keep all workers but one busy. On a GPU a step with dozens of rows takes as
    long as a step with few.
    """
    if any(model.device != "cpu" for model in registry.models):
        return _FREE_ROWS_ON_GPU
    return max(model.card.decoding.rows for model in registry.models) * max(workers - 1, 1)
