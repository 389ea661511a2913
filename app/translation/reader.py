"""② ③ Reads a request: finds the language, checkpoint, runs of text and token ids of each text."""

import math
from collections.abc import Sequence

from app.translation.catalogue import Catalogue, Route
from app.translation.glossary_store import StoredGlossary
from app.translation.request import TranslationRequest
from app.translation.text_job import TextJob
from model.errors import ForeignTextError, InputError, TextTooLongError
from model.request import DecodeOptions
from model.text.formats.markup import layout_of
from model.text.glossary import Glossary
from model.text.languages import Detection, LanguageDetector, usable_language
from model.text.tags import without_tags
from model.translation.document_translation import with_alternatives

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

    def plan(self, request: TranslationRequest) -> list[TextJob]:
        """Every text of a request with its route, to be read.

        Raises:
            InputError: If a language, pair or model cannot be served.
            ConfigError: If the decoding options contradict each other or the checkpoint's limits.
        """
        target = self._catalogue.language("target", request.target)
        source = None if request.source is None else self._catalogue.language("source", request.source)
        if request.model is not None:
            self._catalogue.named(request.model)
        texts = zip(request.texts, request.fields, strict=True)
        return [self._plan_text(request, text, field, source, target) for text, field in texts]

    def read(self, jobs: Sequence[TextJob]) -> list[TextJob]:
        """Every text, ready to be decoded on its next hop, whose checkpoint must be loaded.

        Raises:
            TextTooLongError: If a sentence is longer than its checkpoint reads, or all are than the queue.
        """
        read: list[TextJob] = []
        num_tokens = 0
        for job in jobs:
            read.append(job.read())
            num_tokens += sum(len(sentence.source_ids) for sentence in read[-1].requests)
            if num_tokens > self._max_tokens:
                # Reading all of a request that is rejected anyway might take seconds.
                raise TextTooLongError("q", "MAX_QUEUED_TOKENS", int(self._max_tokens), num_tokens)
        return read

    def _plan_text(
        self, request: TranslationRequest, text: str, field: str, source: str | None, target: str
    ) -> TextJob:
        layout = layout_of(text, request.markup)
        detection, language = None, source
        if language is None:
            text, _ = without_tags(" ".join(layout.texts))
            detection = self._detect_for(request, target, text)
            language = detection.language
            if language not in self._catalogue.languages:
                raise ForeignTextError(field, language, self._catalogue.sources)
        if language == target:
            return TextJob(field=field, layout=layout, detection=detection)
        route = self._catalogue.route((language, target), request.model)
        options = _options(request, route)
        if not any(map(str.strip, layout.texts)):
            # A blank text comes back unchanged, whether its checkpoint is loaded or not.
            return TextJob(field=field, layout=layout, detection=detection)
        return TextJob(
            field=field,
            layout=layout,
            detection=detection,
            splitting=request.splitting,
            keep=request.keep,
            glossary=_glossary(request, language, target),
            route=route,
            options=options,
        )

    def _detect_for(self, request: TranslationRequest, target: str, text: str) -> Detection:
        """The likeliest language that can be translated into the target, unless another is far likelier.

        The target itself counts as another one: a text comes back unchanged only if it is clearly in it.
        """
        ranked = self.detector.detect(text)
        codes = [found.language for found in ranked]
        sources = [code for code in codes if target in self._catalogue.targets(code, request.model)]
        return usable_language(ranked, (sources or [target]).__contains__)


def _glossary(request: TranslationRequest, source: str, target: str) -> Glossary | None:
    """The glossary for a language pair.

    Raises:
        InputError: If the stored glossary has no terms for it.
    """
    if not isinstance(request.glossary, StoredGlossary):
        return request.glossary
    glossary = request.glossary.of_pair(source, target)
    if glossary is None:
        raise InputError(f"the glossary has no entries from {source} to {target}", "glossary")
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
