"""The engine, its scheduler and the service, from loading to the end."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack

from app.backend import Backend
from app.context import Context
from app.scheduling.scheduler import Scheduler
from app.service import TranslationService
from app.warmup import warm_up
from model.errors import TranslationError

logger = logging.getLogger(__name__)


class Running:
    """Brings a context to life, and ends it in the reverse order.

    Args:
        context: Becomes ready once the checkpoints are loaded.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stack = AsyncExitStack()

    async def start(self, load: Callable[[], Backend]) -> None:
        """Load and become ready; a failure is left in the lifecycle, for the server to end the process.

        One that a person can act on is told by whoever ends the process, in one line.

        Args:
            load: Gives the backend; blocks, so it runs in a thread.
        """
        try:
            await self._start(load)
        except Exception as failure:
            if not isinstance(failure, TranslationError):
                logger.error("the model could not be loaded", exc_info=failure)
            self._context.lifecycle.fail(failure)

    async def _start(self, load: Callable[[], Backend]) -> None:
        context, settings = self._context, self._context.settings
        backend = await asyncio.to_thread(load)
        self._stack.callback(backend.close)
        await asyncio.to_thread(warm_up, backend)
        scheduler = Scheduler(backend, context.metrics, max_queued_tokens=settings.max_queued_tokens)
        scheduler.start()
        self._stack.callback(scheduler.stop)
        self._stack.push_async_callback(scheduler.drain, settings.drain_seconds)
        service = TranslationService(backend.models(), scheduler, context.metrics)
        self._stack.callback(service.close)
        await asyncio.to_thread(service.warm_up)
        context.metrics.watch_memory(backend.memory)
        for model in backend.models():
            context.metrics.describe(model)
            logger.info("model loaded", extra={"model": model.card.name, "seconds": model.load_seconds})
        context.serve(service)

    async def stop(self) -> None:
        """Take no more work, finish what is admitted, let go of the engine."""
        self._context.lifecycle.drain()
        await self._stack.aclose()
