"""The models in service: loaded at the start, listed again by a reload, and closed at the end.

A reload is requested (SIGHUP), or follows a change of the checkpoint files. Files may still be on their way:
changed files are only loaded once STABLE_LOOKS looks in a row after the last change have found the same
files. Files that could not be loaded are tried again when they change again, and not before.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from app.backend import Backend, Model
from app.background import in_background, reclaim_memory
from app.lifecycle.context import Context
from app.lifecycle.phase import Phase
from app.lifecycle.registry import ModelRegistry
from app.scheduling.scheduler import Scheduler
from app.telemetry.logs import describe_failure
from app.telemetry.metrics import ReloadOutcome
from app.translation.service import TranslationService
from model.checkpoint.manifest import served_folders
from model.decoding.device import cuda_graphs, gpu_memory
from model.errors import ConfigError, TranslationError

logger = logging.getLogger(__name__)

STABLE_LOOKS: Final = 2
# How long to wait for the current calls of the engines at the end of the process, and at the end of a process
# that must end at once. A call takes a few milliseconds.
_STEP_SECONDS = 2.0
_FORCED_SECONDS = 0.1
_FREE_ROWS_ON_GPU = 64

Connect = Callable[[], Backend]
"""Makes the backend; blocks."""

Listing = frozenset[tuple[str, int, int, int]]
"""For each file its path, size, time of the last change in nanoseconds, and inode."""


class ActiveModels:
    """Starts the workers and the registry of models, and keeps its list up to date.

    Args:
        context: What the application shares; it gets the service that answers requests from now on.
        connect: Makes the backend.
    """

    def __init__(self, context: Context, connect: Connect) -> None:
        self._context = context
        self._connect = connect
        self._running: tuple[ModelRegistry, Scheduler] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        # The files that were loaded last, or that loading was tried with; and those that the last look found.
        self._last_tried: Listing = frozenset()
        self._last_found: Listing = frozenset()
        self._num_stable_looks = 0

    def run(self) -> None:
        """Load the models in a task, and reload whenever that is due, until `stop`."""
        self._tasks.append(asyncio.create_task(self._run()))

    async def _run(self) -> None:
        await self.start()
        while True:
            is_requested = await self._wait_for_request()
            try:
                await self.look(is_requested=is_requested)
            except Exception as fault:  # the next look makes up for it
                logger.error("looking for changed checkpoints failed", exc_info=fault)

    # Starting

    async def start(self) -> None:
        """Load the pinned models and become ready; on a failure the lifecycle keeps it, and the process ends.

        Failures that a person can act on are not logged here: the server reports them in one line.
        """
        self._tasks.append(asyncio.create_task(self._context.watchdog.run()))
        try:
            self._last_tried = self._last_found = await self._list_files()
            await self._start()
        except Exception as failure:
            if not isinstance(failure, TranslationError):
                logger.error("the model could not be loaded", exc_info=failure)
            self._context.lifecycle.fail(failure)

    async def _start(self) -> None:
        context, settings = self._context, self._context.settings
        backend = await in_background(self._connect)
        scheduler = Scheduler(
            backend.workers,
            context.metrics,
            max_queued_tokens=settings.max_queued_tokens,
            fair_rows=settings.fair_rows,
            on_device_lost=self._end_process,
        )
        registry = ModelRegistry(
            backend,
            context.metrics,
            pinned=settings.pinned,
            max_bytes=settings.max_model_bytes,
            idle_seconds=settings.model_idle_seconds,
            wait_until_unused=scheduler.wait_until_unused,
            agree=self._agree,
            list_again=context.request_reload,
        )
        await registry.update()
        self._running = registry, scheduler
        context.metrics.watch("gpu_memory_bytes", gpu_memory)
        context.metrics.watch("cuda_graphs", cuda_graphs)
        scheduler.publish_metrics()
        service = self._new_service(registry, scheduler)
        context.watchdog.watch(scheduler.workers)
        context.lifecycle.cancel_callbacks += [scheduler.cancel_all, registry.cancel_all]
        scheduler.start()
        await in_background(reclaim_memory)
        if context.process is not None:
            await context.process.become_ready()
        context.serve(service)

    async def _agree(self, models: Sequence[Model]) -> None:
        if self._context.process is not None:
            await self._context.process.agree(f"{model.card.name} {model.checksum}" for model in models)

    def _new_service(self, registry: ModelRegistry, scheduler: Scheduler) -> TranslationService:
        """The service of the models that are listed now."""
        models, settings = registry.models, self._context.settings
        if not settings.fair_rows:
            scheduler.set_fair_rows(_fair_rows(models, len(scheduler.workers)))
        return TranslationService(
            models,
            registry,
            scheduler,
            self._context.metrics,
            pivots=settings.pivot == "on",
            retries=settings.retry_degenerate == "on",
        )

    def _end_process(self, failure: Exception) -> None:
        """Fail what is in flight, and have the server end the process: only a new one can go on."""
        self._context.lifecycle.fail(failure)
        self._context.lifecycle.cancel_work()

    # Reloading

    async def _wait_for_request(self) -> bool:
        """Returns whether a reload was requested before the next look was due."""
        requested = self._context.lifecycle.reload_requested
        try:
            async with asyncio.timeout(self._context.settings.watch_seconds or None):
                await requested.wait()
        except TimeoutError:
            return False
        requested.clear()
        return True

    async def look(self, *, is_requested: bool = False) -> None:
        """Look at the files once, and reload if that is due.

        Args:
            is_requested: Whether to reload now, changed or not.
        """
        found = await self._list_files()
        self._num_stable_looks = self._num_stable_looks + 1 if found == self._last_found else 0
        self._last_found = found
        has_settled = found != self._last_tried and self._num_stable_looks >= STABLE_LOOKS
        if not (is_requested or has_settled) or self._context.lifecycle.phase is not Phase.READY:
            return
        self._last_tried = found
        if is_requested or self._context.process is None:
            await self._reload()
        else:
            self._context.process.request_reload()

    async def _list_files(self) -> Listing:
        if not self._context.settings.watch_seconds:
            return frozenset()
        return await in_background(partial(list_files, self._context.settings.checkpoint))

    async def _reload(self) -> None:
        """List the models again; once the new ones are loaded and verified, they answer new requests.

        If listing or loading fails, the current models go on. Returns when the requests that began before are
        answered, and the removed models dropped.
        """
        if self._running is None:
            return
        registry, scheduler = self._running
        try:
            is_new = await registry.update()
        except Exception as failure:
            await self._report(failure)
        else:
            if is_new:
                self._context.serve(self._new_service(registry, scheduler))
                earlier = self._context.lifecycle.start_epoch()
            names = ", ".join(model.card.name for model in registry.models)
            versions = ", ".join(model.version for model in registry.models)
            outcome: ReloadOutcome = "replaced" if is_new else "unchanged"
            logger.info("reloaded", extra={"outcome": outcome, "model": names, "version": versions})
            self._context.metrics.count_reload(outcome)
            if is_new:
                await earlier.wait()
                registry.drop_removed()
        await in_background(reclaim_memory)

    async def _report(self, failure: Exception) -> None:
        """Log and count a failed reload, and vote against it, if other processes wait for this one's vote."""
        if self._context.process is not None:
            self._context.process.refuse()
        if await self._list_files() != self._last_tried:
            logger.info("reload postponed; checkpoint files changed while they were loaded")
        else:
            logger.error("reload failed; the current models go on", extra=describe_failure(failure))
            self._context.metrics.count_reload("failed")

    # Ending

    async def stop(self) -> None:
        """Reject new work, finish the accepted work, and free all memory.

        Engines that are stuck in a step are left alone: their memory is still in use.
        """
        self._context.lifecycle.drain()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._running is not None:
            registry, scheduler = self._running
            if await self._stop_workers(scheduler):
                registry.close()

    async def _stop_workers(self, scheduler: Scheduler) -> bool:
        """Returns whether all workers have ended."""
        await scheduler.drain(self._context.settings.drain_seconds)
        patience = _FORCED_SECONDS if self._context.lifecycle.is_forced else _STEP_SECONDS
        has_ended = await in_background(partial(scheduler.stop, patience))
        if has_ended:
            self._context.watchdog.watch(())
        return has_ended


def _fair_rows(models: Sequence[Model], workers: int) -> int:
    """Rows that hardly slow another client down.

    On a CPU that is as many as keep all workers but one busy. On a GPU a step with dozens of rows takes as
    long as a step with few.
    """
    if any(model.device != "cpu" for model in models):
        return _FREE_ROWS_ON_GPU
    return max(model.card.decoding.rows for model in models) * max(workers - 1, 1)


def list_files(paths: Iterable[Path]) -> Listing:
    """The files of all checkpoint folders; empty without any."""
    try:
        folders = served_folders(paths)
        files = (file for folder in folders for file in folder.iterdir())
        # A dangling link must not hide the other files.
        return frozenset(_entry(file) for file in files if file.exists())
    except (ConfigError, OSError):
        # Files are being moved at this moment; the next look finds them.
        return frozenset()


def _entry(file: Path) -> tuple[str, int, int, int]:
    status = file.stat()
    return str(file), status.st_size, status.st_mtime_ns, status.st_ino
