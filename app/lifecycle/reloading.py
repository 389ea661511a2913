"""Reads the checkpoints again when somebody asks for it (SIGHUP), or when their files have changed.

Files may still be on their way: they count as changed once nothing has happened to them for as long as
between two looks. What could not be loaded is tried again when the files change again, and not before.
"""

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path

from app.background import in_background
from app.lifecycle.active_models import ActiveModels
from app.lifecycle.context import Context
from app.lifecycle.model_set import reclaim_memory
from app.lifecycle.phase import Phase
from app.telemetry.logs import describe_fault
from model.checkpoint.paths import served_folders
from model.errors import ConfigError, TranslationError

logger = logging.getLogger(__name__)

Listing = frozenset[tuple[str, int, int, int]]
"""Of each file its path, its size, when it was written last, and its number on the disk."""


class Reloader:
    """Lets what is being served be replaced.

    Args:
        running: What is being served.
        context: Where a reload is asked for and counted.
    """

    def __init__(self, running: ActiveModels, context: Context) -> None:
        self._active_models = running
        self._lifecycle = context.lifecycle
        self._metrics = context.metrics
        self._paths = context.settings.checkpoint
        self._seconds = context.settings.watch_seconds or None

    async def run(self) -> None:
        """Load, then reload whenever that is due, until cancelled."""
        loaded = before = await self._first_listing()
        await self._active_models.start()
        is_asked = False
        while True:
            is_asked |= await self._pause()
            try:
                now = await self._listing()
                is_due, is_asked = is_asked or now == before != loaded, False
                before = now
                if is_due and self._lifecycle.phase is Phase.READY:
                    loaded = now
                    await self._reload()
            except Exception as fault:
                # For want of a thread, for instance: the next look, or the next reload, makes up for it.
                logger.error("looking for changed checkpoints failed", exc_info=fault)

    async def _pause(self) -> bool:
        """Wait for the next look.

        Returns:
            Whether somebody asked for a reload.
        """
        try:
            async with asyncio.timeout(self._seconds):
                await self._lifecycle.reload_requested.wait()
        except TimeoutError:
            return False
        self._lifecycle.reload_requested.clear()
        return True

    async def _first_listing(self) -> Listing:
        """What is about to be loaded; nothing if nobody can look, so that it is loaded again later."""
        try:
            return await self._listing()
        except RuntimeError as fault:
            logger.error("looking for changed checkpoints failed", exc_info=fault)
            return frozenset()

    async def _listing(self) -> Listing:
        return await in_background(lambda: list_files(self._paths)) if self._seconds else frozenset()

    async def _reload(self) -> None:
        try:
            is_new = await self._active_models.replace()
        except Exception as failure:
            logger.error("reload failed; what was served before goes on", extra=_reason(failure))
            outcome = "failed"
        else:
            outcome = "replaced" if is_new else "unchanged"
            logger.info("reloaded", extra={"outcome": outcome})
        self._metrics.count_reload(outcome)
        await self._let_go()

    async def _let_go(self) -> None:
        try:
            await self._active_models.retire()
        except Exception as fault:
            # It answers nobody any more, and must not be in the way of the next reload.
            logger.error("what was served before could not be closed", exc_info=fault)
        await in_background(reclaim_memory)


def _reason(failure: Exception) -> dict[str, object]:
    """What a person can act on; of other faults the places they came through."""
    is_plain = isinstance(failure, (TranslationError, OSError))
    return {"reason": str(failure)} if is_plain else describe_fault(failure)


def list_files(paths: Iterable[Path]) -> Listing:
    """What lies in the checkpoint folders; nothing if there are none."""
    try:
        folders = served_folders(paths)
        files = (file for folder in folders for file in folder.iterdir())
        # A link that leads nowhere must not hide the others.
        return frozenset(_entry(file) for file in files if file.exists())
    except (ConfigError, OSError):
        # Somebody is just moving them; the next look tells more.
        return frozenset()


def _entry(file: Path) -> tuple[str, int, int, int]:
    status = file.stat()
    return str(file), status.st_size, status.st_mtime_ns, status.st_ino
