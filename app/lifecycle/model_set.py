"""One set of loaded checkpoints in service: warm-up, start and end."""

import ctypes
import dataclasses
import gc
import logging
from collections.abc import Sequence

from app.backend import Backend, Engine, LoadedModel
from app.background import in_background
from app.lifecycle.phase import Lifecycle, Phase
from app.lifecycle.watchdog import Watchdog
from app.scheduling.scheduler import Scheduler
from app.settings import Settings
from app.telemetry.metrics import Metrics
from app.translation.service import TranslationService
from model.checkpoint.self_test import require_self_test
from model.decoding.runner import SilentObserver
from model.decoding.sentence import Sentence
from model.errors import CheckpointError, TranslationError
from model.request import DecodeRequest

logger = logging.getLogger(__name__)

_TEXT = "Congratulations, everything is ready."
_LONGEST = 16
# How long to wait for the current calls of the engines: after a reload, at the end of the process, and at the
# end of a process that must end at once. A call takes a few milliseconds.
_PATIENT_SECONDS = 60.0
_STEP_SECONDS = 2.0
_FORCED_SECONDS = 0.1
_FREE_ROWS_ON_GPU = 64


def reclaim_memory() -> None:
    """Collect garbage, and return free memory to the system; takes some hundredths of a second."""
    # A scheduler and its workers form a reference cycle, which keeps everything down to the weights alive.
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    # glibc keeps free memory for later; other C libraries have no such function.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def warm_up(backend: Backend) -> None:
    """Let each worker's engine of each checkpoint translate, before any worker starts.

    The translations of self-test sentences must be those of when the checkpoint was written.

    Raises:
        CheckpointError: If an engine cannot translate, or translates otherwise; the checkpoint is named.
    """
    for model in backend.models():
        for worker in range(backend.workers):
            try:
                _try_out(model, backend.engine(model.card.name, worker))
            except TranslationError as error:
                raise CheckpointError(f"checkpoint {model.card.name} cannot be served: {error}") from error


def _try_out(model: LoadedModel, engine: Engine) -> None:
    if not model.self_test:
        _decode(engine, [_request(model)], model)
        return
    translations = _decode(engine, [each.request(model.tokenizer) for each in model.self_test], model)
    require_self_test(model.self_test, translations)


def _request(model: LoadedModel) -> DecodeRequest:
    card = model.card
    source, target = card.pairs[0]
    ids = model.tokenizer.encode(_TEXT, source_language=source, target_language=target)
    length = min(_LONGEST, card.max_target_length)
    options = dataclasses.replace(card.decoding, max_length=length, min_length=0, min_length_ratio=0.0)
    start_ids = model.tokenizer.target_prefix(source, target)
    return DecodeRequest(tuple(ids[-card.max_source_length :]), options, start_ids=start_ids)


def _decode(engine: Engine, requests: Sequence[DecodeRequest], model: LoadedModel) -> list[str]:
    sentences = [engine.add(request) for request in requests]
    texts: dict[Sentence, str] = {}
    while not engine.is_idle:
        for sentence, result in engine.step(SilentObserver(), max_steps=1).finished:
            if isinstance(result, TranslationError):
                raise result
            texts[sentence] = model.tokenizer.decode(result[0].token_ids)
    return [texts[sentence] for sentence in sentences]


class ModelSet:
    """Loaded checkpoints in service, with their scheduler; a reload puts another model set in their place.

    Args:
        backend: Loaded, warm and verified; closed at the end.
        settings: All settings.
        metrics: Where everything is counted.
        lifecycle: Cancels the work of this model set if the process must end at once.
        watchdog: Watches the workers.

    Attributes:
        backend: As given.
        service: Translates with these checkpoints.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        settings: Settings,
        metrics: Metrics,
        lifecycle: Lifecycle,
        watchdog: Watchdog,
    ) -> None:
        self.backend = backend
        self._metrics = metrics
        self._lifecycle = lifecycle
        self._watchdog = watchdog
        self._scheduler = Scheduler(
            backend,
            metrics,
            max_queued_tokens=settings.max_queued_tokens,
            fair_rows=settings.fair_rows or _fair_rows(backend),
        )
        self.service = TranslationService(
            backend.models(),
            self._scheduler,
            metrics,
            pivots=settings.pivot == "on",
            retries=settings.retry_degenerate == "on",
        )

    async def start(self) -> None:
        """Start the workers, and have them watched.

        Raises:
            Exception: If that is not possible; everything is closed then.
        """
        self._watchdog.watch(self._scheduler.workers)
        self._lifecycle.cancel_callbacks.add(self._scheduler.cancel_all)
        try:
            self._scheduler.start()
            await in_background(self.service.warm_up)
        except Exception:  # whatever it is: undo the start, then raise it again
            # There may be no thread to do this in, and no worker has work yet.
            if self._scheduler.stop(_STEP_SECONDS):
                self.backend.close()
                self._watchdog.forget(self._scheduler.workers)
            self._lifecycle.cancel_callbacks.discard(self._scheduler.cancel_all)
            raise

    def publish(self) -> None:
        """Show these checkpoints, workers and queue in metrics and log, in place of those before."""
        models = self.backend.models()
        self._scheduler.publish_metrics()
        self._metrics.watch_memory(self.backend.memory)
        self._metrics.show_models(models)
        for model in models:
            fields = {"model": model.card.name, "version": model.version, "seconds": model.load_seconds}
            logger.info("model loaded", extra=fields)

    async def close(self, drain_seconds: float) -> None:
        """Reject new work, finish the accepted work, and free the engines and their memory.

        Engines that are stuck in a step are left alone: their memory is still in use.

        Args:
            drain_seconds: How long the accepted work may take.
        """
        await self._scheduler.drain(drain_seconds)
        if await in_background(lambda: self._scheduler.stop(self._patience)):
            await in_background(self.backend.close)
            self._watchdog.forget(self._scheduler.workers)
        self._lifecycle.cancel_callbacks.discard(self._scheduler.cancel_all)

    @property
    def _patience(self) -> float:
        """Seconds to wait for the current calls of the engines."""
        if self._lifecycle.is_forced:
            return _FORCED_SECONDS
        return _STEP_SECONDS if self._lifecycle.phase is Phase.DRAINING else _PATIENT_SECONDS


def _fair_rows(backend: Backend) -> int:
    """Rows that hardly slow another client down.

    On a CPU that is as many as keep all workers but one busy. On a GPU a step with dozens of rows takes as
    long as a step with few.
    """
    models = backend.models()
    if any(model.device != "cpu" for model in models):
        return _FREE_ROWS_ON_GPU
    return max(model.card.decoding.rows for model in models) * max(backend.workers - 1, 1)
