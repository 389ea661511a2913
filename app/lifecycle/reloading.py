"""Reloads the checkpoints on request (SIGHUP), or when their files have changed.

Files may still be on their way: changed files are only loaded once STABLE_LOOKS looks in a row after the
last change have found the same files. Files that could not be loaded are tried again when they change again,
and not before.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from app.background import in_background
from app.lifecycle.active_models import ActiveModels
from app.lifecycle.phase import Lifecycle, Phase
from app.lifecycle.processes import ServiceProcess
from app.memory import reclaim_memory
from app.telemetry.logs import describe_failure
from app.telemetry.metrics import Metrics, ReloadOutcome
from model.checkpoint.paths import served_folders
from model.errors import ConfigError

logger = logging.getLogger(__name__)

STABLE_LOOKS: Final = 2

Listing = frozenset[tuple[str, int, int, int]]
"""For each file its path, size, time of the last change in nanoseconds, and inode."""


class Reloader:
    """Decides when the active models are loaded again.

    Args:
        active_models: What is being served.
        lifecycle: Where a reload is requested; only a ready process reloads.
        metrics: Where reloads are counted.
        paths: Checkpoint folders, or folders of those.
        watch_seconds: Time between two looks at the files; 0 disables watching.
        process: This process among several, which reload together; None if it is the only one.
    """

    def __init__(
        self,
        active_models: ActiveModels,
        lifecycle: Lifecycle,
        metrics: Metrics,
        *,
        paths: Sequence[Path],
        watch_seconds: float,
        process: ServiceProcess | None = None,
    ) -> None:
        self._active_models = active_models
        self._lifecycle = lifecycle
        self._metrics = metrics
        self._paths = paths
        self._watch_seconds = watch_seconds or None
        self._process = process
        # What was loaded last, or tried; and what the last look found.
        self._loaded: Listing = frozenset()
        self._found: Listing = frozenset()
        self._num_stable_looks = 0
        self._is_requested = False

    async def run(self) -> None:
        """Load, then reload whenever that is due, until cancelled."""
        await self.start()
        while True:
            await self.look(is_requested=await self._wait_for_request())

    async def start(self) -> None:
        """Load what is there."""
        try:
            self._loaded = self._found = await self._list()
        except RuntimeError as fault:
            # Without a thread to look with. The files count as changed, so they are loaded again later.
            logger.error("looking for changed checkpoints failed", exc_info=fault)
        await self._active_models.start()

    async def look(self, *, is_requested: bool = False) -> None:
        """Look at the files once, and reload if that is due.

        Args:
            is_requested: Whether to reload now, changed or not.
        """
        self._is_requested |= is_requested
        try:
            found = await self._list()
            self._num_stable_looks = self._num_stable_looks + 1 if found == self._found else 0
            self._found = found
            has_settled = found != self._loaded and self._num_stable_looks >= STABLE_LOOKS
            is_requested, self._is_requested = self._is_requested, False
            if (is_requested or has_settled) and self._lifecycle.phase is Phase.READY:
                self._loaded = found
                if is_requested or self._process is None:
                    await self._reload()
                else:
                    self._process.request_reload()
        except Exception as fault:
            # For want of a thread, for instance; the next look makes up for it.
            logger.error("looking for changed checkpoints failed", exc_info=fault)

    async def _wait_for_request(self) -> bool:
        """Returns whether a reload was requested before the next look was due."""
        try:
            async with asyncio.timeout(self._watch_seconds):
                await self._lifecycle.reload_requested.wait()
        except TimeoutError:
            return False
        self._lifecycle.reload_requested.clear()
        return True

    async def _list(self) -> Listing:
        return await in_background(lambda: list_files(self._paths)) if self._watch_seconds else frozenset()

    async def _reload(self) -> None:
        try:
            is_new = await self._active_models.replace()
        except Exception as failure:
            if self._process is not None:
                self._process.refuse()
            if await self._is_still_changing():
                logger.info("reload postponed; checkpoint files changed while they were loaded")
            else:
                logger.error("reload failed; the current models go on", extra=describe_failure(failure))
                self._metrics.count_reload("failed")
        else:
            outcome: ReloadOutcome = "replaced" if is_new else "unchanged"
            logger.info("reloaded", extra={"outcome": outcome, **self._active_models.describe()})
            self._metrics.count_reload(outcome)
        await self._retire()

    async def _is_still_changing(self) -> bool:
        """Returns whether the files have changed since the look before the reload."""
        try:
            return await self._list() != self._loaded
        except RuntimeError:
            return False

    async def _retire(self) -> None:
        try:
            await self._active_models.retire()
        except Exception as fault:
            # The replaced models answer no request any more, and must not prevent the next reload.
            logger.error("the replaced models could not be closed", exc_info=fault)
        await in_background(reclaim_memory)


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
