"""① … ⑨ A translation request, its texts while they are translated, and its answers; without HTTP.

TranslationRequest   texts of one client
Text                 one of them: runs of text, and the markup between these
TextJob              the part of a text in one language, often all of it; it has a route of hops
DocumentTranslation  a passage: one run of the job, read for its next hop, as sentences and gaps
DecodeRequest        one sentence, which the scheduler gets
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.translation.catalogue import Hop, Route
from app.translation.glossary_store import StoredGlossary
from model.decode_request import DecodeOptions, DecodeRequest, Hypothesis
from model.text.detection import Detection
from model.text.document import Splitting
from model.text.formats.markup import Layout
from model.text.formats.markup_syntax import MarkupSyntax
from model.text.glossary import Glossary, Term
from model.text.languages import has_unspaced_sentences
from model.text.tags import without_tags
from model.translation.document_translation import DocumentTranslation, rebuild_all, sentences_of
from model.translation.result import SentenceTranslation, Translation

_EDGE = 100  # characters, tags included, in which the last or first one of a text is looked for


@dataclass(kw_only=True, slots=True)
class TranslationRequest:
    """Texts of one client, and how to translate them.

    Attributes:
        texts: In the client's order; none of a file, whose texts are added in portions.
        fields: Where each text stands in the HTTP request, e.g. `q[3]`.
        source: Language of the texts; None detects it for each text.
        target: Language to translate into.
        deadline: When the answers become worthless, seconds of the monotonic clock.
        client: Name of the client, for fair scheduling; no two clients share one.
        markup: Syntax of the markup that is kept apart from the text; None for plain text.
        splitting: Where the sentences of a text end.
        decoding: Options that differ from the checkpoint's own.
        alternatives: Number of further translations of each text.
        model: Name of the checkpoint; None takes the first that can.
        keep: Strings that are not translated, in addition to placeholders and the like.
        glossary: Terms with a given translation; a stored glossary may have some for several language pairs.
        is_mixed: Whether sentences that are clearly not in `source` are translated from their own language,
            as they always are if `source` is None.
        reader: Languages that the client reads, by preference: a hint to the language of a short text.
    """

    texts: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    source: str | None
    target: str
    deadline: float
    client: str = ""
    markup: MarkupSyntax | None = None
    splitting: Splitting = "sentences"
    decoding: Mapping[str, object] = dataclasses.field(default_factory=dict)
    alternatives: int = 0
    model: str | None = None
    keep: tuple[str, ...] = ()
    glossary: Glossary | StoredGlossary | None = None
    is_mixed: bool = False
    reader: tuple[str, ...] = ()

    @property
    def num_characters(self) -> int:
        """Characters of all texts."""
        return sum(map(len, self.texts))

    @property
    def uses_default_search(self) -> bool:
        """Returns whether the client leaves the search to the service; an alignment changes no search."""
        return self.decoding.keys() <= {"return_alignment"}


@dataclass(kw_only=True, slots=True)
class Answer:
    """The translation of one text.

    Attributes:
        text: The translation.
        alternatives: Further translations, best first.
        detection: The language of most of the text, if it was not given.
        route: The checkpoints that translated most of it; None if the text came back unchanged.
        sentences: The translation of each sentence, on the last hop.
        missing_terms: Terms of the glossary that the translation lacks.
        is_finished: Whether every sentence ended by itself, on every hop, not at its length limit.
    """

    text: str
    alternatives: tuple[str, ...] = ()
    detection: Detection | None = None
    route: Route | None = None
    sentences: tuple[SentenceTranslation, ...] = ()
    missing_terms: tuple[Term, ...] = ()
    is_finished: bool = True


@dataclass(kw_only=True, eq=False, slots=True)
class TextJob:
    """The part of a text in one language; `read` begins a hop of its route, and `advance` ends the hop.

    Attributes:
        request: The request that it belongs to.
        field: Where the text stands in the request, e.g. `q[3]`.
        runs: Its runs of text: those of the source, and after each hop their translations.
        places: The run of the text's layout that each of them is, or is a part of.
        route: The checkpoints that are to translate it; None if it comes back unchanged.
        options: How to decode each hop.
        glossary: Terms with a given translation on the next hop.
        passages: Its runs of text, read for the next hop; none after the last hop.
        requests: The sentences of the next hop, in order.
        remaining: The hops that are still to come; none after the last.
        done: For each hop so far, the translations of its sentences.
    """

    request: TranslationRequest
    field: str
    runs: Sequence[Translation]
    places: Sequence[int]
    route: Route | None = None
    options: tuple[DecodeOptions, ...] = ()
    glossary: Glossary | None = None
    passages: Sequence[DocumentTranslation] = ()
    requests: Sequence[DecodeRequest] = ()
    remaining: tuple[Hop, ...] = ()
    done: tuple[Sequence[SentenceTranslation], ...] = ()

    def read(self) -> None:
        """Tokenise its runs for the next hop.

        Raises:
            TextTooLongError: If a sentence has more tokens than the checkpoint reads.
        """
        hop = self.remaining[0]
        if self.done and self.glossary is not None:
            self.glossary = self.glossary.of_targets()
        self.passages = [
            DocumentTranslation.read(
                text,
                tokenizer=hop.model.tokenizer,
                card=hop.model.card,
                pair=hop.pair,
                options=self.options[len(self.done)],
                field=self.field,
                splitting=self.request.splitting,
                keep=self.request.keep,
                glossary=self.glossary,
            )
            for text in map(str, self.runs)
        ]
        self.requests = [request for passage in self.passages for request in passage.requests]

    def sentences(self, results: Sequence[Sequence[Hypothesis]]) -> list[SentenceTranslation]:
        """The translations of its sentences on the next hop, from one result for each request.

        Raises:
            DecodingError: If a sentence has no hypothesis.
        """
        return sentences_of(self.passages, results, self.remaining[0].model.tokenizer)

    def advance(self, sentences: Sequence[SentenceTranslation]) -> None:
        """Replace the runs by their translations; the hop after this one may be read then.

        Args:
            sentences: The translations of its sentences on the next hop.
        """
        self.runs = rebuild_all(self.passages, sentences)
        self.done = (*self.done, sentences)
        self.passages, self.requests, self.remaining = (), (), self.remaining[1:]

    @property
    def missing_terms(self) -> dict[str, Term]:
        """The terms whose translation a sentence lacks after any hop, by source."""
        if self.glossary is None:
            return {}
        lacking = {term.target for hop in self.done for sentence in hop for term in sentence.missing_terms}
        terms = (term for sentence in (self.done or ((),))[0] for term in sentence.sentence.terms)
        return {term.source: term for term in terms if term.target in lacking}


@dataclass(kw_only=True, eq=False, slots=True)
class Text:
    """One text of a request.

    Attributes:
        layout: Its runs of text, and what stands between them.
        jobs: In order, one for each part in another language than the part before it.
        detection: Its language, or that of most of it, if it was not given.
    """

    layout: Layout
    jobs: Sequence[TextJob]
    detection: Detection | None

    def answer(self) -> Answer:
        """The answer, after the last hop."""
        decoded = [job for job in self.jobs if any(job.done)]
        longest = max(decoded, key=lambda job: sum(map(len, job.runs)), default=None)
        count = max((len(run.alternatives) for job in self.jobs for run in job.runs), default=0)
        terms: dict[str, Term] = {}
        for job in decoded:
            terms |= job.missing_terms
        return Answer(
            text=self._rebuilt(str),
            # Alternative i of the text: alternative i of each run, or its best if it has fewer.
            alternatives=tuple(
                self._rebuilt(lambda run, i=i: (*run.alternatives[i : i + 1], str(run))[0])  # type: ignore[misc]
                for i in range(count)
            ),
            detection=self.detection,
            route=None if longest is None else longest.route,
            sentences=tuple(sentence for job in decoded for sentence in job.done[-1]),
            missing_terms=tuple(terms.values()),
            is_finished=all(each.best.finished for job in decoded for hop in job.done for each in hop),
        )

    def _rebuilt(self, text_of: Callable[[Translation], str]) -> str:
        return self.layout.rebuild(self.joined([list(map(text_of, job.runs)) for job in self.jobs]))

    def joined(self, texts: Sequence[Sequence[str]]) -> list[str]:
        """Returns the runs of the layout as far as they are known.

        Args:
            texts: The runs of the first jobs.
        """
        runs: list[str] = []
        for job, own in zip(self.jobs, texts, strict=False):
            for place, text in zip(job.places, own, strict=False):
                if place == len(runs):
                    runs.append(text)
                    continue
                before, behind = without_tags(runs[place][-_EDGE:])[0], without_tags(text[:_EDGE])[0]
                is_glued = bool(before and behind) and not (before[-1].isspace() or behind[0].isspace())
                # A language without spaces between sentences has none where it meets another one.
                runs[place] += " " * (is_glued and not has_unspaced_sentences(job.request.target)) + text
        return runs
