"""① ⑨ What one client asks for and what it gets, free of HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.translation.catalogue import Route
from app.translation.markup_syntax import MarkupSyntax
from model.text.document import Splitting
from model.text.languages import Detection
from model.translation.result import SentenceTranslation


@dataclass(frozen=True, kw_only=True)
class TranslationRequest:
    """What one client asks for.

    Attributes:
        texts: In order.
        fields: Where each stands in the request, e.g. `q[3]`.
        source: Language of the texts; None detects it text by text.
        target: Language to translate into.
        deadline: When the answers become worthless, seconds of the monotonic clock.
        client: Whose it is, for a fair share of the engines: no two clients have the same.
        markup: What markup is to be kept apart from text, if any.
        splitting: Where the sentences of a text end.
        decoding: Options that differ from the checkpoint's own.
        alternatives: Further translations of each text.
        model: Name of the checkpoint; None takes the first that can.
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

    @property
    def uses_default_search(self) -> bool:
        """Whether how to search is left to us; an alignment only tells what was found."""
        return self.decoding.keys() <= {"return_alignment"}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What became of one text.

    Attributes:
        text: The translation.
        alternatives: Further ones, best first.
        detection: Its language, where it had to be detected.
        route: By which checkpoints it went; None if it came back unchanged.
        sentences: What each sentence became, on the last leg.
        is_finished: Whether every sentence ended by itself, on every leg, not at its length limit.
    """

    text: str
    alternatives: tuple[str, ...] = ()
    detection: Detection | None = None
    route: Route | None = None
    sentences: tuple[SentenceTranslation, ...] = ()
    is_finished: bool = True
