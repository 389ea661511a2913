"""② ③ An order becomes sentences for the decoder: language, checkpoint, runs of text, token ids."""

from dataclasses import dataclass

from app.backend import LoadedModel
from app.catalogue import Catalogue
from app.markup import Layout, Markup, PlainText
from app.order import Order
from model.card import Pair
from model.passage import Passage, with_alternatives
from model.request import DecodeOptions, DecodeRequest
from model.text.document import Splitting
from model.text.language import Detection, LanguageDetector


@dataclass(frozen=True, kw_only=True)
class Item:
    """One text on its way.

    Attributes:
        layout: Its runs of text, and what stands between them.
        pair: From which language into which.
        detection: How the first of them was found, where it was.
        model: The checkpoint; None where the text comes back unchanged.
        passages: One a run of text.
    """

    layout: Layout
    pair: Pair
    detection: Detection | None
    model: LoadedModel | None = None
    passages: tuple[Passage, ...] = ()

    @property
    def requests(self) -> list[DecodeRequest]:
        """Its sentences, in order."""
        return [request for passage in self.passages for request in passage.requests]


class Reader:
    """Turns orders into items; thread-safe.

    Args:
        catalogue: The loaded checkpoints.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._detector = LanguageDetector(catalogue.languages)

    def detect(self, text: str) -> list[Detection]:
        """Languages the text may be in, likeliest first."""
        return self._detector.detect(text)

    def read(self, order: Order) -> list[Item]:
        """Every text of an order, ready to be decoded.

        Raises:
            InputError: If a language, pair, model or text cannot be served.
            ConfigError: If the decoding options contradict each other or the checkpoint's limits.
        """
        target = self._catalogue.language("target", order.target)
        source = None if order.source is None else self._catalogue.language("source", order.source)
        if order.model is not None:
            self._catalogue.named(order.model)
        return [
            self._read_text(order, text, field, source, target)
            for text, field in zip(order.texts, order.fields, strict=True)
        ]

    def _read_text(self, order: Order, text: str, field: str, source: str | None, target: str) -> Item:
        layout: Layout = Markup.split(text) if order.is_html else PlainText(text)
        detection = None if source is not None else self._detect_for(target, " ".join(layout.texts))
        language = detection.language if detection is not None else source or target
        if language == target:
            return Item(layout=layout, pair=(target, target), detection=detection)
        pair = (language, target)
        model = self._catalogue.route(pair, order.model)
        options = with_alternatives(model.card.options(order.decoding), order.alternatives)
        passages = tuple(_passage(run, model, pair, options, field, order.splitting) for run in layout.texts)
        return Item(layout=layout, pair=pair, detection=detection, model=model, passages=passages)

    def _detect_for(self, target: str, text: str) -> Detection:
        """The likeliest language that can be translated into the target, or is the target already."""
        ranked = self.detect(text)
        usable = (
            found
            for found in ranked
            if found.language == target or target in self._catalogue.targets(found.language)
        )
        return next(usable, ranked[0])


def _passage(
    run: str, model: LoadedModel, pair: Pair, options: DecodeOptions, field: str, splitting: Splitting
) -> Passage:
    return Passage.read(
        run,
        tokenizer=model.tokenizer,
        card=model.card,
        pair=pair,
        options=options,
        field=field,
        splitting=splitting,
    )
