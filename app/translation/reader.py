"""② ③ Reads a request: finds the language, checkpoint, runs of text and token ids of each text.

Long texts are read on threads, which clients share fairly.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, TypeVar

from app.background import in_background
from app.errors import DeadlinePassedError
from app.scheduling.fair_queue import FairSemaphore
from app.translation.catalogue import Catalogue, Route
from app.translation.glossary_store import StoredGlossary
from app.translation.requests import Text, TextJob, TranslationRequest
from model.decode_request import DecodeOptions
from model.errors import ForeignTextError, InputError, TextTooLongError
from model.text.detection import Detection, LanguageDetector, usable_language
from model.text.document import Document
from model.text.formats.markup import layout_of
from model.text.glossary import Glossary
from model.text.tags import without_tags
from model.translation.document_translation import with_alternatives
from model.translation.result import Translation

Result = TypeVar("Result")

# Detecting, splitting and encoding 2,000 characters takes a few milliseconds, which the event loop
# can spare; more goes to a thread. A thread costs about 0.1 ms, so short texts stay on the event loop.
_INLINE_CHARACTERS = 2_000
# Options of the requested translation, which do not apply to a pivot language on the way.
_LAST_HOP_OPTIONS = frozenset({"min_length", "max_length", "return_alignment"})


class Reader:
    """Turns requests into text jobs; thread-safe.

    Args:
        catalogue: The checkpoints.
        max_tokens: Most source tokens of one request; a longer one could never be queued.

    Attributes:
        detector: Detects the languages of the catalogue.
    """

    def __init__(self, catalogue: Catalogue, max_tokens: float = math.inf) -> None:
        self._catalogue = catalogue
        self._max_tokens = max_tokens
        self.detector = LanguageDetector(catalogue.languages)

    def plan(self, request: TranslationRequest) -> list[Text]:
        """Every text of a request with its routes, to be read; its languages become those of the catalogue.

        Raises:
            InputError: If a language, pair or model cannot be served.
            ConfigError: If the decoding options contradict each other or the checkpoint's limits.
        """
        request.target = self._catalogue.language("target", request.target)
        if request.source is not None:
            request.source = self._catalogue.language("source", request.source)
        if request.model is not None:
            self._catalogue.named(request.model)
        texts = zip(request.texts, request.fields, strict=True)
        return [self._plan_text(request, text, field) for text, field in texts]

    def read(self, jobs: Sequence[TextJob]) -> float:
        """Tokenise texts for their next hop, whose checkpoint must be loaded.

        Returns:
            How many seconds of that it took to encode their sentences.

        Raises:
            TextTooLongError: If a sentence is longer than its checkpoint reads, or all are than the queue.
        """
        num_tokens, encode_seconds = 0, 0.0
        for job in jobs:
            job.read()
            for passage in job.passages:
                encode_seconds += passage.encode_seconds
            for sentence in job.requests:
                num_tokens += len(sentence.source_ids)
            if num_tokens > self._max_tokens:
                # Reading all of a request that is rejected anyway might take seconds.
                raise TextTooLongError("q", "MAX_QUEUED_TOKENS", int(self._max_tokens), num_tokens)
        return encode_seconds

    def _plan_text(self, request: TranslationRequest, text: str, field: str) -> Text:
        layout = layout_of(text, request.markup)
        detection, language = None, request.source
        if language is None:
            detection = self._detect_for(request, without_tags(" ".join(layout.texts))[0])
            language = detection.language
            if language not in self._catalogue.languages:
                raise ForeignTextError(field, language, self._catalogue.sources)
        parts = [_Part(language, range(len(layout.texts)), layout.texts)]
        if request.is_mixed or detection is not None:
            parts = self._parts(request, layout.texts, language)
        if len(parts) > 1 and detection is not None:
            detection = _main_language(parts)
            language = detection.language
        jobs = [self._job(request, field, part, is_main=part.language == language) for part in parts]
        return Text(layout=layout, jobs=jobs, detection=detection)

    def _job(self, request: TranslationRequest, field: str, part: "_Part", *, is_main: bool) -> TextJob:
        """The job of a part of a text; `is_main` says whether most of the text is in its language."""
        runs = list(map(Translation, part.runs))
        job = TextJob(request=request, field=field, runs=runs, places=part.places)
        if part.language != request.target:
            route = self._catalogue.route((part.language, request.target), request.model)
            job.options = _options(request, route)
            # A blank text comes back unchanged, whether its checkpoint is loaded or not.
            if any(map(str.strip, runs)):
                job.route, job.remaining = route, route.hops
                job.glossary = _glossary(request, part.language, is_needed=is_main)
        return job

    def _parts(self, request: TranslationRequest, texts: Sequence[str], language: str) -> list["_Part"]:
        """Returns the parts of a text, each in another language than the part before it.

        Args:
            request: The request.
            texts: The runs of the text.
            language: The language that the text as a whole seems to be in.
        """
        pieces = [
            (place, piece, sentence)
            for place, text in enumerate(texts)
            for piece, sentence in Document.split(text, language, request.splitting).pieces()
        ]
        sentences = [without_tags(sentence)[0] for _, _, sentence in pieces]
        known = (*self._catalogue.sources_of(request.target, request.model), request.target)
        codes = self.detector.detect_each(sentences, language, known)
        parts: list[_Part] = []
        for code, group in groupby(zip(codes, pieces, strict=True), key=itemgetter(0)):
            runs: dict[int, str] = {}
            for _, (place, piece, _) in group:
                runs[place] = runs.get(place, "") + piece
            parts.append(_Part(code, list(runs), list(runs.values())))
        return parts

    def _detect_for(self, request: TranslationRequest, text: str) -> Detection:
        """The likeliest language that can be translated into the target, unless another is far likelier.

        The target itself counts as another one: a text comes back unchanged only if it is clearly in it.
        """
        ranked = self.detector.detect(text, request.reader)
        sources = self._catalogue.sources_of(request.target, request.model) or (request.target,)
        return usable_language(ranked, sources.__contains__)


class TextThreads:
    """A few threads for work on long texts, which would stall the event loop; for the event loop only.

    Work that finds no thread free waits in a fair queue of clients.

    Args:
        count: Number of threads.
    """

    def __init__(self, count: int) -> None:
        self._permits = FairSemaphore(count)

    async def run(
        self, work: Callable[[], Result], *, client: str, size: int, deadline: float | None = None
    ) -> Result:
        """Do work on a text: short texts on the event loop, long ones on a thread.

        If the caller is cancelled, the thread finishes the work and serves the next client after that.

        Args:
            work: What to do, in the caller's context.
            client: Name of the client.
            size: Characters of the text.
            deadline: When the result becomes worthless, seconds of the monotonic clock; None for never.

        Raises:
            DeadlinePassedError: If the deadline came before the result of a thread.
        """
        if size <= _INLINE_CHARACTERS:
            return work()
        try:
            async with asyncio.timeout_at(deadline):
                await self._permits.acquire(client, size)
                work = partial(copy_context().run, work)
                return await in_background(work, name="text", ended=self._permits.release)
        except TimeoutError:
            raise DeadlinePassedError from None


class _Part(NamedTuple):
    """A part of a text that is in one language: its runs, and the runs of the text that they belong to."""

    language: str
    places: Sequence[int]
    runs: Sequence[str]


def _main_language(parts: Sequence[_Part]) -> Detection:
    """Returns the language of most of a text; the confidence is the share of its characters."""
    sizes = Counter[str]()
    for part in parts:
        sizes[part.language] += sum(map(len, part.runs))
    ((language, size),) = sizes.most_common(1)
    return Detection(language=language, confidence=size / sizes.total())


def _glossary(request: TranslationRequest, source: str, *, is_needed: bool) -> Glossary | None:
    """The glossary for a source language.

    Raises:
        InputError: If the stored glossary has no terms for it and is needed.
    """
    if not isinstance(request.glossary, StoredGlossary):
        return request.glossary
    glossary = request.glossary.of_pair(source, request.target)
    if glossary is None and is_needed:
        raise InputError(f"the glossary has no entries from {source} to {request.target}", "glossary")
    return glossary


def _options(request: TranslationRequest, route: Route) -> tuple[DecodeOptions, ...]:
    """The decoding options of each hop.

    Raises:
        ConfigError: If the options contradict each other or a checkpoint's limits.
    """
    *earlier, last = route.hops
    requested = with_alternatives(last.model.card.options(request.decoding), request.alternatives)
    if not earlier:
        return (requested,)
    common = {name: value for name, value in request.decoding.items() if name not in _LAST_HOP_OPTIONS}
    return (*(hop.model.card.options(common) for hop in earlier), requested)
