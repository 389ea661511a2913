"""② ③ An order becomes sentences for the decoder: language, checkpoint, runs of text, token ids."""

import math

from app.translation.catalogue import Catalogue, Route
from app.translation.markup import Layout, Markup, PlainText
from app.translation.request import TranslationRequest
from app.translation.text_job import TextJob
from model.errors import TextTooLongError
from model.request import DecodeOptions
from model.text.languages import Detection, LanguageDetector, gains_spaces, usable_language
from model.translation.document_translation import with_alternatives

# What concerns the translation that is asked for, not a text that is on its way to it.
_ONLY_ON_THE_LAST_HOP = frozenset({"min_length", "max_length", "return_alignment"})


class Reader:
    """Turns orders into items; thread-safe.

    Args:
        catalogue: The loaded checkpoints.
        most_tokens: Of one order; whatever is over it could never be decoded.
    """

    def __init__(self, catalogue: Catalogue, most_tokens: float = math.inf) -> None:
        self._catalogue = catalogue
        self._most_tokens = most_tokens
        self._detector = LanguageDetector(catalogue.languages)

    def detect(self, text: str) -> list[Detection]:
        """Languages the text may be in, likeliest first."""
        return self._detector.detect(text)

    def read(self, order: TranslationRequest) -> list[TextJob]:
        """Every text of an order, ready to be decoded.

        Raises:
            InputError: If a language, pair, model or text cannot be served.
            ConfigError: If the decoding options contradict each other or the checkpoint's limits.
        """
        target = self._catalogue.language("target", order.target)
        source = None if order.source is None else self._catalogue.language("source", order.source)
        if order.model is not None:
            self._catalogue.named(order.model)
        jobs: list[TextJob] = []
        num_tokens = 0
        for text, field in zip(order.texts, order.fields, strict=True):
            jobs.append(self._read_text(order, text, field, source, target))
            num_tokens += sum(len(request.source_ids) for request in jobs[-1].requests)
            if num_tokens > self._most_tokens:
                # To read all of what cannot be taken in might take seconds.
                raise TextTooLongError("q", "MAX_QUEUED_TOKENS", int(self._most_tokens), num_tokens)
        return jobs

    def _read_text(
        self, order: TranslationRequest, text: str, field: str, source: str | None, target: str
    ) -> TextJob:
        layout: Layout = Markup.split(text, order.markup) if order.markup else PlainText(text)
        detection, language = None, source
        if language is None:
            detection = self._detect_for(order, target, " ".join(layout.texts))
            language = detection.language
        if language == target:
            return TextJob(field=field, layout=layout, detection=detection)
        if gains_spaces(language, target):
            layout = layout.spaced()
        route = self._catalogue.route((language, target), order.model)
        options = _options(order, route)
        return TextJob.begin(
            layout, route, options, field=field, detection=detection, splitting=order.splitting
        )

    def _detect_for(self, order: TranslationRequest, target: str, text: str) -> Detection:
        """The likeliest language that can be translated into the target, or is the target already."""
        return usable_language(
            self.detect(text),
            lambda code: code == target or target in self._catalogue.targets(code, order.model),
        )


def _options(order: TranslationRequest, route: Route) -> tuple[DecodeOptions, ...]:
    """How to decode each leg.

    Raises:
        ConfigError: If the options contradict each other or a checkpoint's limits.
    """
    *earlier, last = route.hops
    asked = with_alternatives(last.model.card.options(order.decoding), order.alternatives)
    if not earlier:
        return (asked,)
    common = {name: value for name, value in order.decoding.items() if name not in _ONLY_ON_THE_LAST_HOP}
    return (*(hop.model.card.options(common) for hop in earlier), asked)
