"""⑤ A second attempt at sentences whose translation looks broken, where there is time and room for one."""

import asyncio
import time
from collections.abc import Coroutine, Iterable, Sequence

from app.backend import LoadedModel
from app.errors import DeadlinePassedError, UnavailableError
from app.scheduling.scheduler import Scheduler
from app.telemetry.metrics import Metrics
from app.translation.request import TranslationRequest
from app.translation.text_job import TextJob
from model.errors import TranslationError
from model.translation.result import SentenceTranslation
from model.translation.second_attempt import better_of, second_request

# Of the time that is left when the first attempts are there: what comes after them needs some of it.
_SHARE_OF_TIME = 0.5


class SecondAttempts:
    """Asks the engines once more, for each sentence by itself.

    Args:
        scheduler: Decodes sentences.
        metrics: Where second attempts are counted.
    """

    def __init__(self, scheduler: Scheduler, metrics: Metrics) -> None:
        self._scheduler = scheduler
        self._metrics = metrics

    async def improve(
        self,
        order: TranslationRequest,
        jobs: Sequence[TextJob],
        sentences: Sequence[SentenceTranslation],
        *,
        is_watched: bool,
    ) -> list[SentenceTranslation]:
        """The sentences, each that looked broken as its second attempt has it where that is better.

        Args:
            order: Whose they are; second attempts get half of the time that is left to it.
            jobs: Its texts.
            sentences: What became of the requests of all of them.
            is_watched: Whether the client has seen them grow: then those of a last leg stay as they are.
        """
        if not any(sentence.diagnosis for sentence in sentences):
            return list(sentences)
        owners = [job for job in jobs for _ in job.requests]
        now = time.monotonic()
        deadline = now + _SHARE_OF_TIME * (order.deadline - now)
        attempts = {
            place: self._try_again(sentence, job.remaining[0].model, order.client, deadline)
            for place, (job, sentence) in enumerate(zip(owners, sentences, strict=True))
            if sentence.diagnosis and not (is_watched and len(job.remaining) == 1)
        }
        improved = dict(zip(attempts, await _together(attempts.values()), strict=True))
        return [improved.get(place, each) for place, each in enumerate(sentences)]

    async def _try_again(
        self, first: SentenceTranslation, model: LoadedModel, client: str, deadline: float
    ) -> SentenceTranslation:
        request = second_request(first)
        if request is None:
            return first
        try:
            (result,) = await self._scheduler.submit([(model.card.name, request)], deadline, client=client)
        except (UnavailableError, DeadlinePassedError, TranslationError):
            # A translation that looks broken is worth more than none.
            self._metrics.count_second_attempt("impossible")
            return first
        sentence = better_of(first, request, result, model.tokenizer)
        kept = sentence.diagnosis is not None and sentence.diagnosis.kept
        self._metrics.count_second_attempt("kept" if kept else "discarded")
        return sentence


async def _together(
    attempts: Iterable[Coroutine[object, object, SentenceTranslation]],
) -> list[SentenceTranslation]:
    """What came of each, in order; the first fault ends all of them, and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(attempt) for attempt in attempts]
    except ExceptionGroup as faults:
        # Whoever answers and logs it looks at its type, and at where it happened.
        raise faults.exceptions[0] from None
    return [task.result() for task in tasks]
