"""② ③ ⑧ One text on its way: as it was read, behind each leg of its route, and at the end as an answer."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from app.translation.catalogue import Hop, Route
from app.translation.markup import Layout
from app.translation.request import Answer
from model.request import DecodeOptions, DecodeRequest, Hypothesis
from model.text.document import Splitting
from model.text.languages import Detection
from model.text.source_sentence import SourceSentence
from model.translation.document_translation import DocumentTranslation, rebuild_all, sentences_of
from model.translation.result import SentenceTranslation, Translation


@dataclass(frozen=True, kw_only=True)
class TextJob:
    """One text on its way.

    Attributes:
        field: Where it stands in the request, e.g. `q[3]`.
        layout: Its runs of text, and what stands between them.
        detection: How its language was found, where it was.
        splitting: Where its sentences end.
        route: By which checkpoints it goes; None where it comes back unchanged.
        options: How each leg is to be decoded.
        passages: Its runs of text, read for the next leg; none once it has arrived.
        behind: What the sentences of each leg became that lies behind it.
        runs: What the runs of text are after those legs.
    """

    field: str
    layout: Layout
    detection: Detection | None
    splitting: Splitting = "sentences"
    route: Route | None = None
    options: tuple[DecodeOptions, ...] = ()
    passages: tuple[DocumentTranslation, ...] = ()
    done: tuple[tuple[SentenceTranslation, ...], ...] = ()
    runs: tuple[Translation, ...] = ()

    @property
    def remaining(self) -> tuple[Hop, ...]:
        """Legs that it has yet to go; none once it has arrived."""
        return self.route.hops[len(self.done) :] if self.route else ()

    @property
    def requests(self) -> list[DecodeRequest]:
        """The sentences of the next leg, in order."""
        return [request for passage in self.passages for request in passage.requests]

    @property
    def sources(self) -> list[SourceSentence]:
        """The sentence of each request."""
        return [sentence for passage in self.passages for sentence in passage.sentences]

    @property
    def target(self) -> str:
        """The language that the next leg leads to; empty where none is ahead."""
        return self.passages[0].target if self.passages else ""

    @property
    def encode_seconds(self) -> float:
        """How long encoding them took."""
        return sum(passage.encode_seconds for passage in self.passages)

    @classmethod
    def begin(
        cls,
        layout: Layout,
        route: Route,
        options: tuple[DecodeOptions, ...],
        *,
        field: str,
        detection: Detection | None,
        splitting: Splitting,
    ) -> Self:
        """A text that is ready for the first leg.

        Raises:
            TextTooLongError: If a sentence has more tokens than its checkpoint reads.
        """
        passages = _read(layout.texts, route.hops[0], options[0], field, splitting)
        return cls(
            field=field,
            layout=layout,
            detection=detection,
            splitting=splitting,
            route=route,
            options=options,
            passages=passages,
        )

    def sentences(self, results: Sequence[Sequence[Hypothesis]]) -> list[SentenceTranslation]:
        """What became of its sentences on the next leg, from one result a request.

        Raises:
            DecodingError: If a sentence has no hypothesis.
        """
        return sentences_of(self.passages, results, self.remaining[0].model.tokenizer)

    def go_on(self, sentences: Sequence[SentenceTranslation]) -> Self:
        """Behind the next leg, where this became of its sentences, and ready for the one after it.

        Raises:
            TextTooLongError: If a sentence became longer than the next checkpoint reads.
        """
        runs = tuple(rebuild_all(self.passages, sentences))
        done = (*self.done, tuple(sentences))
        passages: tuple[DocumentTranslation, ...] = ()
        if further := self.remaining[1:]:
            texts = [run.text for run in runs]
            passages = _read(texts, further[0], self.options[len(done)], self.field, self.splitting)
        return dataclasses.replace(self, done=done, runs=runs, passages=passages)

    def answer(self) -> Answer:
        """What its client gets, once it has arrived."""
        texts = [run.text for run in self.runs] if self.route else self.layout.texts
        return Answer(
            text=self.layout.rebuild(texts),
            alternatives=self._alternatives(),
            detection=self.detection,
            route=self.route if any(self.done) else None,
            sentences=self.done[-1] if self.done else (),
            is_finished=all(sentence.best.finished for hop in self.done for sentence in hop),
        )

    def _alternatives(self) -> tuple[str, ...]:
        """Alternative i of the whole: alternative i of each run of text, or its best where it has fewer."""
        most = max((len(run.alternatives) for run in self.runs), default=0)
        return tuple(
            self.layout.rebuild([(*run.alternatives[i : i + 1], run.text)[0] for run in self.runs])
            for i in range(most)
        )


def _read(
    texts: Sequence[str], hop: Hop, options: DecodeOptions, field: str, splitting: Splitting
) -> tuple[DocumentTranslation, ...]:
    """Runs of text, ready for a leg."""
    return tuple(
        DocumentTranslation.read(
            text,
            tokenizer=hop.model.tokenizer,
            card=hop.model.card,
            pair=hop.pair,
            options=options,
            field=field,
            splitting=splitting,
        )
        for text in texts
    )
