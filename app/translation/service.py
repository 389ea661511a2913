"""② … ⑧ The conductor: a text is split and encoded, decoded, and put together again."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from functools import partial
from itertools import islice
from typing import TypeVar

from app.backend import LoadedModel
from app.errors import DeadlinePassedError
from app.scheduling.scheduler import Scheduler
from app.telemetry.metrics import Metrics
from app.telemetry.timings import current
from app.translation.catalogue import Catalogue
from app.translation.partial_results import PartialResults
from app.translation.reader import Reader
from app.translation.request import Answer, TranslationRequest
from app.translation.second_attempts import SecondAttempts
from app.translation.text_job import TextJob
from app.translation.text_threads import TextThreads
from model.request import Hypothesis
from model.text.languages import Detection
from model.translation.result import SentenceTranslation

Result = TypeVar("Result")

# Detecting, splitting and encoding 2,000 characters takes a few milliseconds, which the event loop
# can spare; more goes to a thread. Handing over costs about 0.1 ms, so short texts stay.
_INLINE_CHARS = 2_000


class TranslationService:
    """Translates and detects; everything HTTP is somewhere else.

    Args:
        models: The loaded checkpoints, the preferred one of a pair first.
        scheduler: Decodes sentences.
        metrics: Where tokens and broken translations are counted.
        pivots: Whether texts may go through a language between.
        retries: Whether what looks broken is translated a second time.

    Attributes:
        catalogue: The loaded checkpoints, by language pair.
    """

    def __init__(
        self,
        models: Sequence[LoadedModel],
        scheduler: Scheduler,
        metrics: Metrics,
        *,
        pivots: bool = True,
        retries: bool = True,
    ) -> None:
        self.catalogue = Catalogue(models, pivots=pivots)
        self._reader = Reader(self.catalogue, scheduler.max_queued_tokens)
        self._scheduler = scheduler
        self._metrics = metrics
        self._retries = SecondAttempts(scheduler, metrics) if retries else None
        self._threads = TextThreads(2)

    def warm_up(self) -> None:
        """Load what the first request would otherwise wait for: statistics of letters, by word length."""
        self._reader.detect("Congratulations, everything is ready")

    async def translate(
        self, order: TranslationRequest, partial_results: PartialResults | None = None
    ) -> list[Answer]:
        """Translate every text of an order, or none.

        Args:
            order: What one client asks for.
            partial_results: Are kept up to date while the translations grow.

        Raises:
            InputError: If a language, pair, model or text cannot be served.
            ConfigError: If the decoding options contradict each other or the checkpoint's limits.
            UnavailableError: If there is no room for it now.
            DeadlinePassedError: If its deadline came first.
            TranslationError: If a sentence could not be decoded.
        """
        self._scheduler.require_room(order.client, order.deadline)
        size = sum(map(len, order.texts))
        timings = current()
        timings.items, timings.characters = len(order.texts), size
        with timings.during("split"):
            jobs = await self._beside_loop(order.client, size, lambda: self._reader.read(order))
        timings.split_off("encode", sum(job.encode_seconds for job in jobs))
        while any(job.remaining for job in jobs):
            jobs = await self._go_on(order, jobs, partial_results)
        with timings.during("finish"):
            return await self._beside_loop(order.client, size, lambda: [job.answer() for job in jobs])

    async def detect(self, text: str, client: str, deadline: float) -> list[Detection]:
        """Languages that a client's text may be in, likeliest first.

        Raises:
            DeadlinePassedError: If the deadline, seconds of the monotonic clock, came first.
        """
        try:
            async with asyncio.timeout_at(deadline):
                return await self._beside_loop(client, len(text), lambda: self._reader.detect(text))
        except TimeoutError:
            raise DeadlinePassedError from None

    async def _beside_loop(self, client: str, size: int, work: Callable[[], Result]) -> Result:
        """Run work on a client's text of this many characters where the event loop does not stall."""
        if size <= _INLINE_CHARS:
            return work()
        # The thread is to find the request at hand, too.
        run = partial(copy_context().run, work)
        return await self._threads.run(run, client=client, cost=size)

    async def _go_on(
        self, order: TranslationRequest, jobs: Sequence[TextJob], partial_results: PartialResults | None
    ) -> list[TextJob]:
        """All items, those that were under way a leg further."""
        if partial_results is not None:
            partial_results.begin(jobs)
        # To find out what is certain costs the engines something in each turn.
        is_shown = any(len(job.remaining) == 1 for job in jobs)
        results = await self._scheduler.submit(
            [(job.remaining[0].model.card.name, request) for job in jobs for request in job.requests],
            order.deadline,
            partial_results if is_shown else None,
            client=order.client,
        )
        size = sum(map(len, order.texts))
        with current().during("finish"):
            sentences = await self._beside_loop(order.client, size, lambda: _sentences(jobs, iter(results)))
        if self._retries is not None and order.uses_default_search:
            is_watched = partial_results is not None
            sentences = await self._retries.improve(order, jobs, sentences, is_watched=is_watched)
        with current().during("finish"):
            return await self._beside_loop(order.client, size, lambda: self._arrive(jobs, iter(sentences)))

    def _arrive(self, jobs: Sequence[TextJob], sentences: Iterator[SentenceTranslation]) -> list[TextJob]:
        return [
            self._counted(job, list(islice(sentences, len(job.requests)))) if job.remaining else job
            for job in jobs
        ]

    def _counted(self, job: TextJob, sentences: Sequence[SentenceTranslation]) -> TextJob:
        label = "-".join(job.remaining[0].pair)
        source = sum(len(sentence.request.source_ids) for sentence in sentences)
        target = sum(len(sentence.best.token_ids) for sentence in sentences)
        current().count_tokens(label, source, target)
        self._metrics.count_translated(label, source, target)
        for sentence in sentences:
            if sentence.diagnosis is not None:
                self._metrics.count_degenerate(sentence.diagnosis.kind)
        return job.go_on(sentences)


def _sentences(jobs: Sequence[TextJob], results: Iterator[Sequence[Hypothesis]]) -> list[SentenceTranslation]:
    """What became of the sentences of all items, in order."""
    return [
        sentence
        for job in jobs
        if job.remaining
        for sentence in job.sentences(list(islice(results, len(job.requests))))
    ]
