"""What is being served, from loading to the end, and how another set of checkpoints takes its place."""

import asyncio
import logging
from collections.abc import Callable

from app.backend import Backend
from app.background import in_background
from app.lifecycle.context import Context
from app.lifecycle.model_set import ModelSet, warm_up
from app.lifecycle.phase import InFlightEpoch
from model.checkpoint.self_test import GoldenSentence
from model.errors import TranslationError

logger = logging.getLogger(__name__)

Load = Callable[[Backend | None], Backend]
"""Gives a backend; blocks. What is served already may lend it checkpoints that are unchanged."""


class ActiveModels:
    """Brings a context to life, and ends it.

    Args:
        context: Becomes ready once the checkpoints are loaded.
        load: Gives what is to be served.
    """

    def __init__(self, context: Context, load: Load) -> None:
        self._context = context
        self._load = load
        self._model_set: ModelSet | None = None
        self._retiring: tuple[ModelSet, InFlightEpoch] | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load and become ready; a failure is left in the lifecycle, for the server to end the process.

        One that a person can act on is told by whoever ends the process, in one line.
        """
        self._watching = asyncio.create_task(self._context.watchdog.run())
        try:
            backend = await in_background(lambda: self._load(None))
            await self._serve(backend)
        except Exception as failure:
            if not isinstance(failure, TranslationError):
                logger.error("the model could not be loaded", exc_info=failure)
            self._context.lifecycle.fail(failure)

    async def replace(self) -> bool:
        """Load again, beside what is served; once that is warm and verified, it answers what comes.

        Returns:
            Whether anything was different, and `retire` is due; if not, nothing has changed hands.

        Raises:
            Exception: Why it could not be loaded; what was served before goes on.
        """
        before = self._model_set
        lender = before.backend if before is not None else None
        backend = await in_background(lambda: self._load(lender))
        if before is not None and _identity(backend) == _identity(before.backend):
            await in_background(backend.close)
            return False
        await self._serve(backend)
        if before is not None:
            self._retiring = before, self._context.lifecycle.part()
        return True

    async def retire(self) -> None:
        """Let what was replaced answer what began with it, then let go of it."""
        if self._retiring is not None:
            (before, epoch), self._retiring = self._retiring, None
            await epoch.gone()
            await before.close(self._context.settings.drain_seconds)

    async def _serve(self, backend: Backend) -> None:
        try:
            await in_background(lambda: warm_up(backend))
            model_set = ModelSet(backend, self._context)
        except Exception:
            await in_background(backend.close)
            raise
        await model_set.start()
        model_set.announce()
        self._model_set = model_set
        self._context.serve(model_set.service)

    async def stop(self) -> None:
        """Take no more work, finish what is admitted, let go of the engines."""
        self._context.lifecycle.drain()
        if self._watching is not None:
            self._watching.cancel()
        if self._model_set is not None:
            await self._model_set.close(self._context.settings.drain_seconds)


def _identity(backend: Backend) -> list[tuple[str, str, tuple[GoldenSentence, ...]]]:
    """What is served, and what it was verified with: new golden sentences are to be translated, too."""
    return [(model.card.name, model.checksum, model.golden) for model in backend.models()]
