"""② … ⑧ Translates a request: reads its texts, has them decoded hop by hop, and builds the answers.

A sentence whose translation looks broken is decoded a second time, if time and queue capacity allow it.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice

from app.backend import Leases, Model
from app.background import in_background, release_memory
from app.errors import DeadlinePassedError, UnavailableError
from app.scheduling.scheduler import Results, Scheduler
from app.telemetry.metrics import Metrics
from app.telemetry.timings import current_timings
from app.translation.catalogue import Catalogue
from app.translation.partial_results import PartialResults
from app.translation.reader import Reader, TextThreads
from app.translation.requests import Answer, Text, TextJob, TranslationRequest
from model.errors import TranslationError
from model.text.detection import Detection
from model.translation.result import SentenceTranslation, better_of, second_request

# Second attempts may take this part of the time that is left; what comes after them needs the rest.
_TIME_SHARE = 0.5
# Threads on which long texts are read.
_TEXT_THREADS = 2


class TranslationService:
    """Translates texts and detects languages; independent of HTTP.

    Args:
        models: The checkpoints, the preferred one of a language pair first.
        leases: Loads them, and keeps them in memory while they are used.
        scheduler: Decodes sentences.
        metrics: Where tokens and broken translations are counted.
        pivots: Whether texts may be translated through a third language.
        retries: Whether translations that look broken get a second attempt.

    Attributes:
        catalogue: The checkpoints by language pair.
    """

    def __init__(
        self,
        models: Sequence[Model],
        leases: Leases,
        scheduler: Scheduler,
        metrics: Metrics,
        *,
        pivots: bool = True,
        retries: bool = True,
    ) -> None:
        self.catalogue = Catalogue(models, pivots=pivots)
        self._reader = Reader(self.catalogue, scheduler.max_queued_tokens)
        self._leases = leases
        self._scheduler = scheduler
        self._metrics = metrics
        self._retries = retries
        self._threads = TextThreads(_TEXT_THREADS)
        self._loading = asyncio.Lock()

    async def translate(
        self, request: TranslationRequest, partial_results: PartialResults | None = None
    ) -> list[Answer]:
        """Translate every text of a request, or none.

        Args:
            request: The texts, and how to translate them.
            partial_results: Kept up to date while the translations grow.

        Raises:
            InputError: If a language, pair, model or text cannot be served.
            ConfigError: If the decoding options contradict each other or the checkpoint's limits.
            UnavailableError: If there is no capacity for the request now.
            DeadlinePassedError: If its deadline came first.
            TranslationError: If a sentence could not be decoded.
        """
        self._scheduler.require_capacity(request.client, request.deadline)
        timings, client, size = current_timings(), request.client, request.num_characters
        timings.items, timings.characters = len(request.texts), size
        run = partial(self._threads.run, client=client, size=size, deadline=request.deadline)
        if request.source is None:
            await self._load_detector(request.deadline)
        with timings.during("split"):
            texts = await run(partial(self._reader.plan, request))
        while jobs := [job for text in texts for job in text.jobs if job.remaining]:
            async with self._leases.lease({job.remaining[0].model for job in jobs}, request.deadline):
                await self._translate_hop(request, texts, jobs, partial_results)
        with timings.during("finish"):
            return await run(lambda: [text.answer() for text in texts])

    async def detect(
        self, text: str, client: str, deadline: float, reader: Sequence[str] = ()
    ) -> list[Detection]:
        """Languages that a client's text may be in, likeliest first.

        Args:
            text: Any text.
            client: Name of the client.
            deadline: When the answer becomes worthless, seconds of the monotonic clock.
            reader: Languages that the client reads, by preference.

        Raises:
            DeadlinePassedError: If the deadline came first.
        """
        await self._load_detector(deadline)
        work = partial(self._reader.detector.detect, text, reader)
        return await self._threads.run(work, client=client, size=len(text), deadline=deadline)

    async def _load_detector(self, deadline: float) -> None:
        """Load the statistics of language detection, 110 MB for five languages, at the first use."""
        detector = self._reader.detector
        if detector.is_loaded:
            return
        try:
            async with asyncio.timeout_at(deadline), self._loading:
                if not detector.is_loaded:
                    with current_timings().during("load"):
                        await in_background(detector.load)
                        # Loading takes 35 MB more than it needs in the end.
                        await in_background(release_memory)
        except TimeoutError:
            raise DeadlinePassedError from None

    async def _translate_hop(
        self,
        request: TranslationRequest,
        texts: Sequence[Text],
        jobs: Sequence[TextJob],
        partial_results: PartialResults | None,
    ) -> None:
        """Take jobs one hop further, for which the caller holds a lease on the checkpoints.

        Args:
            request: The request.
            texts: All of its texts.
            jobs: Those of their jobs that have a hop to go.
            partial_results: Kept up to date while the translations grow.
        """
        timings, client, size = current_timings(), request.client, request.num_characters
        run = partial(self._threads.run, client=client, size=size, deadline=request.deadline)
        with timings.during("split"):
            encode_seconds = await run(partial(self._reader.read, jobs))
        timings.split_off("encode", encode_seconds)
        if partial_results is not None:
            partial_results.begin(texts)
        # Finding out which tokens are certain costs the engines time in each step.
        is_shown = partial_results is not None and any(len(job.remaining) == 1 for job in jobs)
        results = await self._scheduler.submit(
            [(job.remaining[0].model, sentence) for job in jobs for sentence in job.requests],
            request.deadline,
            partial_results if is_shown else None,
            client=client,
        )
        with timings.during("finish"):
            sentences = await run(partial(_sentences, jobs, results))
        is_improvable = self._retries and request.uses_default_search
        if is_improvable and any(sentence.diagnosis for sentence in sentences):
            # What the client has seen grow must not change.
            models = _models(jobs, is_last_hop_fixed=partial_results is not None)
            sentences = await self._improve(sentences, models, request)
        with timings.during("finish"):
            await run(partial(self._advance, jobs, sentences))

    async def _improve(
        self,
        sentences: Sequence[SentenceTranslation],
        models: Sequence[Model | None],
        request: TranslationRequest,
    ) -> list[SentenceTranslation]:
        """Returns the sentences, with the second attempt in place of each broken one that it improves.

        Args:
            sentences: First attempts.
            models: The checkpoint that is to try each sentence again; None leaves the sentence as it is.
            request: Their request; second attempts get half of the time that it has left.
        """
        now = time.monotonic()
        deadline = now + _TIME_SHARE * (request.deadline - now)
        attempts = {
            place: self._try_again(sentence, model, deadline, request)
            for place, (sentence, model) in enumerate(zip(sentences, models, strict=True))
            if sentence.diagnosis and model is not None
        }
        improved = dict(zip(attempts, await asyncio.gather(*attempts.values()), strict=True))
        return [improved.get(place, each) for place, each in enumerate(sentences)]

    async def _try_again(
        self, first: SentenceTranslation, model: Model, deadline: float, request: TranslationRequest
    ) -> SentenceTranslation:
        second, client = second_request(first), request.client
        if second is None:
            return first
        try:
            (result,) = await self._scheduler.submit([(model, second)], deadline, client=client)
            choose = partial(better_of, first, second, result)
            sentence = await self._threads.run(
                choose, client=client, size=request.num_characters, deadline=deadline
            )
        except (UnavailableError, DeadlinePassedError, TranslationError):
            # A translation that looks broken is worth more than none.
            self._metrics.count_second_attempt("impossible")
            return first
        is_kept = sentence.diagnosis is not None and sentence.diagnosis.kept
        self._metrics.count_second_attempt("kept" if is_kept else "discarded")
        return sentence

    def _advance(self, jobs: Sequence[TextJob], sentences: Iterable[SentenceTranslation]) -> None:
        """Rebuild the texts with the translations of their sentences, and count these."""
        remaining = iter(sentences)
        for job in jobs:
            own = list(islice(remaining, len(job.requests)))
            source = target = 0
            for sentence in own:
                source += len(sentence.request.source_ids)
                target += len(sentence.best.token_ids)
                if sentence.diagnosis is not None:
                    self._metrics.count_degenerate(sentence.diagnosis.kind)
            pair = "-".join(job.remaining[0].pair)
            current_timings().count_tokens(pair, source, target)
            self._metrics.count_translated(pair, source, target)
            job.advance(own)


def _sentences(jobs: Sequence[TextJob], results: Results) -> list[SentenceTranslation]:
    """The translations of the sentences of all texts, in order."""
    remaining = iter(results)
    return [each for job in jobs for each in job.sentences(list(islice(remaining, len(job.requests))))]


def _models(jobs: Sequence[TextJob], *, is_last_hop_fixed: bool) -> list[Model | None]:
    """For each sentence the checkpoint that may try it again."""
    return [
        None if is_last_hop_fixed and len(job.remaining) == 1 else job.remaining[0].model
        for job in jobs
        for _ in job.requests
    ]
