"""Which model set serves: loaded at the start, replaced by a reload, retired when its requests have ended."""

import asyncio
import logging
from collections.abc import Callable

from app.backend import Backend
from app.background import in_background
from app.lifecycle.model_set import ModelSet, warm_up
from app.lifecycle.phase import InFlightEpoch, Lifecycle
from app.lifecycle.watchdog import Watchdog
from app.settings import Settings
from app.telemetry.metrics import Metrics
from app.translation.service import TranslationService
from model.checkpoint.self_test import SelfTestSentence
from model.errors import TranslationError

logger = logging.getLogger(__name__)

Load = Callable[[Backend | None], Backend]
"""Loads a backend; blocks. It may share unchanged checkpoints with the backend that is being served."""


class ActiveModels:
    """Loads a model set, replaces it on a reload, and closes it at the end.

    Args:
        load: Loads what is to be served.
        settings: All settings.
        metrics: Where the models are shown.
        lifecycle: Learns whether loading succeeded, and tells which requests are in flight.
        watchdog: Watches the workers.
        serve: Called with the service that answers requests from now on.
    """

    def __init__(
        self,
        load: Load,
        *,
        settings: Settings,
        metrics: Metrics,
        lifecycle: Lifecycle,
        watchdog: Watchdog,
        serve: Callable[[TranslationService], None],
    ) -> None:
        self._load = load
        self._settings = settings
        self._metrics = metrics
        self._lifecycle = lifecycle
        self._watchdog = watchdog
        self._serve = serve
        self._current: ModelSet | None = None
        self._retiring: tuple[ModelSet, InFlightEpoch] | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load and become ready; on a failure the lifecycle keeps it, and the server ends the process.

        Failures that a person can act on are not logged here: the server reports them in one line.
        """
        self._watching = asyncio.create_task(self._watchdog.run())
        try:
            await self._activate(await in_background(lambda: self._load(None)))
        except Exception as failure:
            if not isinstance(failure, TranslationError):
                logger.error("the model could not be loaded", exc_info=failure)
            self._lifecycle.fail(failure)

    async def replace(self) -> bool:
        """Load again, next to the current models; once warm and verified, the new ones answer new requests.

        Returns:
            Whether the models differ and `retire` is due; otherwise nothing has changed.

        Raises:
            Exception: Why loading failed; the current models go on.
        """
        before = self._current
        shared = before.backend if before is not None else None
        backend = await in_background(lambda: self._load(shared))
        if before is not None and _identity(backend) == _identity(before.backend):
            await in_background(backend.close)
            return False
        await self._activate(backend)
        if before is not None:
            self._retiring = before, self._lifecycle.start_epoch()
        return True

    async def retire(self) -> None:
        """Close the replaced models once the requests that began with them are answered."""
        if self._retiring is not None:
            (before, epoch), self._retiring = self._retiring, None
            await epoch.wait()
            await before.close(self._settings.drain_seconds)

    async def stop(self) -> None:
        """Reject new work, finish the accepted work, and close the models."""
        self._lifecycle.drain()
        if self._watching is not None:
            self._watching.cancel()
        if self._current is not None:
            await self._current.close(self._settings.drain_seconds)

    def describe(self) -> dict[str, str]:
        """Names and versions of the current models, as log fields."""
        models = self._current.backend.models() if self._current is not None else ()
        return {
            "model": ", ".join(model.card.name for model in models),
            "version": ", ".join(model.version for model in models),
        }

    async def _activate(self, backend: Backend) -> None:
        try:
            await in_background(lambda: warm_up(backend))
            model_set = ModelSet(
                backend,
                settings=self._settings,
                metrics=self._metrics,
                lifecycle=self._lifecycle,
                watchdog=self._watchdog,
            )
        except Exception:  # whatever it is: close the backend, then raise it again
            await in_background(backend.close)
            raise
        await model_set.start()
        model_set.publish()
        self._current = model_set
        self._serve(model_set.service)


def _identity(backend: Backend) -> list[tuple[str, str, tuple[SelfTestSentence, ...]]]:
    """What tells two backends apart; new self-test sentences count, as they have to be translated too."""
    return [(model.card.name, model.checksum, model.self_test) for model in backend.models()]
