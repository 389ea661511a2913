"""One set of loaded checkpoints in service, from loading and warm-up to the end."""

import ctypes
import dataclasses
import gc
import logging
from collections.abc import Sequence

from app.backend import Backend, Engine, LoadedModel
from app.background import in_background
from app.lifecycle.context import Context
from app.lifecycle.phase import Phase
from app.scheduling.scheduler import Scheduler
from app.translation.service import TranslationService
from model.checkpoint.self_test import require_alike
from model.decoding.runner import SilentObserver
from model.decoding.sentence import Sentence
from model.errors import CheckpointError, TranslationError
from model.request import DecodeRequest


def reclaim_memory() -> None:
    """Free what nobody can reach, and give free memory back; takes some hundredths of a second."""
    # A scheduler and its workers know each other, and through them everything down to the weights.
    gc.collect()
    # glibc keeps what it may need again; other C libraries have no such function.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


_TEXT = "Congratulations, everything is ready."
_LONGEST = 16


def warm_up(backend: Backend) -> None:
    """Let each worker's engine of each checkpoint translate; no thread may drive them yet.

    Golden sentences must come out as they did when the checkpoint was written.

    Raises:
        CheckpointError: If one cannot, or does otherwise; the checkpoint is named.
    """
    for model in backend.models():
        for worker in range(backend.workers):
            try:
                _try_out(model, backend.engine(model.card.name, worker))
            except TranslationError as error:
                raise CheckpointError(f"checkpoint {model.card.name} cannot be served: {error}") from error


def _try_out(model: LoadedModel, engine: Engine) -> None:
    if not model.golden:
        _decode(engine, [_request(model)], model)
        return
    translations = _decode(engine, [golden.request(model.tokenizer) for golden in model.golden], model)
    require_alike(model.golden, translations)


def _request(model: LoadedModel) -> DecodeRequest:
    card = model.card
    ids = model.tokenizer.encode(_TEXT, target_language=card.pairs[0][1])
    length = min(_LONGEST, card.max_target_length)
    options = dataclasses.replace(card.decoding, max_length=length, min_length=0, min_length_ratio=0.0)
    return DecodeRequest(tuple(ids[-card.max_source_length :]), options)


def _decode(engine: Engine, requests: Sequence[DecodeRequest], model: LoadedModel) -> list[str]:
    sentences = [engine.add(request) for request in requests]
    texts: dict[Sentence, str] = {}
    while not engine.is_idle:
        for sentence, result in engine.step(SilentObserver(), max_steps=1).finished:
            if isinstance(result, TranslationError):
                raise result
            texts[sentence] = model.tokenizer.decode(result[0].token_ids)
    return [texts[sentence] for sentence in sentences]


logger = logging.getLogger(__name__)

# How long the steps at hand may take: while another generation serves, nobody waits for them; at the end of
# the process somebody does, and far more than a step takes is enough.
_PATIENT_SECONDS = 60.0
_STEP_SECONDS = 2.0
_HURRIED_SECONDS = 0.1

_FREE_ROWS_ON_GPU = 64


class ModelSet:
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
        self._context.lifecycle.cancel_callbacks.add(self._scheduler.cancel_all)
        try:
            self._scheduler.start()
            await in_background(self.service.warm_up)
        except Exception:
            self._abandon()
            raise

    def announce(self) -> None:
        """Tell of its checkpoints, workers and queue, in the place of those before."""
        metrics, models = self._context.metrics, self.backend.models()
        self._scheduler.publish_metrics()
        metrics.watch_memory(self.backend.memory)
        metrics.show_models(models)
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
        self._context.lifecycle.cancel_callbacks.discard(self._scheduler.cancel_all)

    def _abandon(self) -> None:
        """Let go of everything at once: there may be no thread to do it in, and no worker has work."""
        if self._scheduler.stop(_STEP_SECONDS):
            self.backend.close()
            self._context.watchdog.forget(self._scheduler.workers)
        self._context.lifecycle.cancel_callbacks.discard(self._scheduler.cancel_all)

    @property
    def _patience(self) -> float:
        lifecycle = self._context.lifecycle
        if lifecycle.is_forced:
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
