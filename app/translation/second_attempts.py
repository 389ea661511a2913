"""⑤ A second attempt at sentences whose translation looks broken, if time and queue capacity allow it."""

import asyncio
import time
from collections.abc import Coroutine, Iterable, Sequence

from app.backend import Model
from app.errors import DeadlinePassedError, UnavailableError
from app.scheduling.scheduler import Scheduler
from app.telemetry.metrics import Metrics
from model.errors import TranslationError
from model.translation.result import SentenceTranslation, better_of, second_request

# Second attempts may take this part of the time that is left; what comes after them needs the rest.
_TIME_SHARE = 0.5


class SecondAttempts:
    """Decodes broken sentences once more, each by itself.

    Args:
        scheduler: Decodes sentences.
        metrics: Where second attempts are counted.
    """

    def __init__(self, scheduler: Scheduler, metrics: Metrics) -> None:
        self._scheduler = scheduler
        self._metrics = metrics

    async def improve(
        self,
        sentences: Sequence[SentenceTranslation],
        models: Sequence[Model | None],
        *,
        deadline: float,
        client: str,
    ) -> list[SentenceTranslation]:
        """The sentences, with the second attempt in place of each broken one that it improves.

        Args:
            sentences: First attempts.
            models: The checkpoint that is to try each sentence again; None leaves the sentence as it is.
            deadline: The request's; second attempts get half of the time until then.
            client: The client's name.
        """
        now = time.monotonic()
        deadline = now + _TIME_SHARE * (deadline - now)
        attempts = {
            place: self._try_again(sentence, model, client, deadline)
            for place, (sentence, model) in enumerate(zip(sentences, models, strict=True))
            if sentence.diagnosis and model is not None
        }
        improved = dict(zip(attempts, await _gather(attempts.values()), strict=True)) if attempts else {}
        return [improved.get(place, each) for place, each in enumerate(sentences)]

    async def _try_again(
        self, first: SentenceTranslation, model: Model, client: str, deadline: float
    ) -> SentenceTranslation:
        request = second_request(first)
        if request is None:
            return first
        try:
            (result,) = await self._scheduler.submit([(model, request)], deadline, client=client)
        except (UnavailableError, DeadlinePassedError, TranslationError):
            # A translation that looks broken is worth more than none.
            self._metrics.count("degenerate_retries", "impossible")
            return first
        sentence = better_of(first, request, result)
        kept = sentence.diagnosis is not None and sentence.diagnosis.kept
        self._metrics.count("degenerate_retries", "kept" if kept else "discarded")
        return sentence


async def _gather(
    attempts: Iterable[Coroutine[object, object, SentenceTranslation]],
) -> list[SentenceTranslation]:
    """The results in order; the first fault cancels the other attempts and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(attempt) for attempt in attempts]
    except ExceptionGroup as faults:
        # Error handling depends on the fault's type, and the log on its traceback.
        raise faults.exceptions[0] from None
    return [task.result() for task in tasks]
