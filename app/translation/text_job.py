"""② ③ ⑧ One text on its way: after reading, after each hop of its route, and at the end as an answer."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from app.translation.catalogue import Hop, Route
from app.translation.request import Answer
from model.request import DecodeOptions, DecodeRequest, Hypothesis
from model.text.document import Splitting
from model.text.formats.markup import Layout
from model.text.glossary import Glossary, Term
from model.text.languages import Detection
from model.text.source_sentence import SourceSentence
from model.text.tokenizer import Tokenizer
from model.translation.document_translation import DocumentTranslation, rebuild_all, sentences_of
from model.translation.result import SentenceTranslation, Translation


@dataclass(kw_only=True, eq=False, slots=True)
class TextJob:
    """One text on its way; `read` and `advance` take it along its route.

    Attributes:
        field: Where the text stands in the request, e.g. `q[3]`.
        layout: Its runs of text, and what stands between them.
        detection: The detected language, if it was not given.
        splitting: Where its sentences end.
        keep: Strings that are not translated.
        glossary: Terms with a given translation.
        route: The checkpoints that are to translate it; None if it comes back unchanged.
        options: How to decode each hop.
        passages: Its runs of text, read for the next hop; none after the last hop.
        requests: The sentences of the next hop, in order.
        remaining: The hops that are still to come; none after the last.
        done: For each hop so far, the translations of its sentences.
        runs: The runs of text after those hops.
        tokenizer: The tokenizer of the last of those hops.
    """

    field: str
    layout: Layout
    detection: Detection | None
    splitting: Splitting = "sentences"
    keep: tuple[str, ...] = ()
    glossary: Glossary | None = None
    route: Route | None = None
    options: tuple[DecodeOptions, ...] = ()
    passages: tuple[DocumentTranslation, ...] = ()
    requests: list[DecodeRequest] = dataclasses.field(default_factory=list, init=False)
    remaining: tuple[Hop, ...] = dataclasses.field(default=(), init=False)
    done: tuple[tuple[SentenceTranslation, ...], ...] = ()
    runs: tuple[Translation, ...] = ()
    tokenizer: Tokenizer | None = None

    def __post_init__(self) -> None:
        self.remaining = self.route.hops if self.route else ()

    @property
    def sources(self) -> list[SourceSentence]:
        """The sentence of each request."""
        return [sentence for passage in self.passages for sentence in passage.sentences]

    @property
    def target(self) -> str:
        """The target language of the next hop; empty after the last."""
        return self.passages[0].target if self.passages else ""

    @property
    def encode_seconds(self) -> float:
        """How long it took to encode them."""
        return sum(passage.encode_seconds for passage in self.passages)

    def read(self) -> Self:
        """Tokenises its texts for the next hop; nothing changes after the last hop.

        Returns:
            The job itself.

        Raises:
            TextTooLongError: If a sentence has more tokens than the checkpoint reads.
        """
        if not self.remaining:
            return self
        texts = [run.text for run in self.runs] if self.done else self.layout.texts
        hop = self.remaining[0]
        if self.done and self.glossary is not None:
            self.glossary = self.glossary.of_targets()
        self.passages = tuple(
            DocumentTranslation.read(
                text,
                tokenizer=hop.model.tokenizer,
                card=hop.model.card,
                pair=hop.pair,
                options=self.options[len(self.done)],
                field=self.field,
                splitting=self.splitting,
                keep=self.keep,
                glossary=self.glossary,
            )
            for text in texts
        )
        self.requests = [request for passage in self.passages for request in passage.requests]
        return self

    def sentences(self, results: Sequence[Sequence[Hypothesis]]) -> list[SentenceTranslation]:
        """The translations of its sentences on the next hop, from one result for each request.

        Raises:
            DecodingError: If a sentence has no hypothesis.
        """
        return sentences_of(self.passages, results, self.remaining[0].model.tokenizer)

    def advance(self, sentences: Sequence[SentenceTranslation]) -> Self:
        """Goes one hop further, so that it can be read for the hop after it.

        Args:
            sentences: The translations of its sentences on the next hop.

        Returns:
            The job itself.
        """
        self.tokenizer = self.remaining[0].model.tokenizer
        self.runs = tuple(rebuild_all(self.passages, sentences))
        self.done = (*self.done, tuple(sentences))
        self.passages, self.requests, self.remaining = (), [], self.remaining[1:]
        return self

    def answer(self) -> Answer:
        """The answer, after the last hop."""
        texts = [run.text for run in self.runs] if self.route else self.layout.texts
        return Answer(
            text=self.layout.rebuild(texts),
            alternatives=self._alternatives(),
            detection=self.detection,
            route=self.route if any(self.done) else None,
            sentences=self.done[-1] if self.done else (),
            missing_terms=self._missing_terms(),
            tokenizer=self.tokenizer,
            is_finished=all(sentence.best.finished for hop in self.done for sentence in hop),
        )

    def _missing_terms(self) -> tuple[Term, ...]:
        """The terms whose translation a sentence lacks after any hop."""
        lacking = {term.target for hop in self.done for sentence in hop for term in sentence.missing_terms}
        terms = (term for sentence in (self.done or ((),))[0] for term in sentence.sentence.terms)
        return tuple({term.source: term for term in terms if term.target in lacking}.values())

    def _alternatives(self) -> tuple[str, ...]:
        """Alternative i of the text: alternative i of each run of text, or its best if it has fewer."""
        count = max((len(run.alternatives) for run in self.runs), default=0)
        return tuple(
            self.layout.rebuild([(*run.alternatives[i : i + 1], run.text)[0] for run in self.runs])
            for i in range(count)
        )
