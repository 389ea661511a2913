"""① ⑨ A translation request and its answers, independent of HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.translation.catalogue import Route
from app.translation.glossary_store import StoredGlossary
from model.text.document import Splitting
from model.text.formats.markup_syntax import MarkupSyntax
from model.text.glossary import Glossary, Term
from model.text.languages import Detection
from model.text.tokenizer import Tokenizer
from model.translation.result import SentenceTranslation


@dataclass(frozen=True, kw_only=True)
class TranslationRequest:
    """Texts of one client, and how to translate them.

    Attributes:
        texts: In the client's order.
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
    """

    texts: tuple[str, ...]
    fields: tuple[str, ...]
    source: str | None
    target: str
    deadline: float
    client: str = ""
    markup: MarkupSyntax | None = None
    splitting: Splitting = "sentences"
    decoding: Mapping[str, object] = field(default_factory=dict)
    alternatives: int = 0
    model: str | None = None
    keep: tuple[str, ...] = ()
    glossary: Glossary | StoredGlossary | None = None

    @property
    def num_characters(self) -> int:
        """Characters of all texts."""
        return sum(map(len, self.texts))

    @property
    def uses_default_search(self) -> bool:
        """Whether the client leaves the search to the service; an alignment does not change the search."""
        return self.decoding.keys() <= {"return_alignment"}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The translation of one text.

    Attributes:
        text: The translation.
        alternatives: Further translations, best first.
        detection: The detected language, if it was not given.
        route: The checkpoints that translated; None if the text came back unchanged.
        sentences: The translation of each sentence, on the last hop.
        missing_terms: Terms of the glossary that the translation lacks.
        is_finished: Whether every sentence ended by itself, on every hop, not at its length limit.
        tokenizer: The tokenizer of the last hop; None if the text came back unchanged.
    """

    text: str
    alternatives: tuple[str, ...] = ()
    detection: Detection | None = None
    route: Route | None = None
    sentences: tuple[SentenceTranslation, ...] = ()
    missing_terms: tuple[Term, ...] = ()
    is_finished: bool = True
    tokenizer: Tokenizer | None = None
