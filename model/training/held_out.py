"""ⓐ Text that is never trained on: what validation translates, and how the network reads it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from model.training.data.config import CorpusConfig
from model.training.data.corpus import read_pairs


@dataclass(frozen=True)
class HeldOut:
    """Sentences of one direction, with their references.

    Attributes:
        source_language: Code.
        target_language: Code.
        sources: To translate.
        references: One for each.
    """

    source_language: str
    target_language: str
    sources: tuple[str, ...]
    references: tuple[str, ...]

    @property
    def direction(self) -> tuple[str, str]:
        """(source, target) codes."""
        return self.source_language, self.target_language

    @property
    def pair(self) -> str:
        """The same as `source-target`."""
        return "-".join(self.direction)


@dataclass(frozen=True)
class Row:
    """One sentence of a text: what it was, what it should and what it did become."""

    source: str
    reference: str
    translation: str

    def to_dict(self) -> dict[str, str]:
        """Plain values."""
        return dict(vars(self))


@dataclass(frozen=True)
class TranslatedText(HeldOut):
    """The same text with its translations.

    Attributes:
        translations: One for each source; empty where the decoder refused.
    """

    translations: tuple[str, ...]

    def rows(self) -> Iterator[Row]:
        """Its sentences."""
        for row in zip(self.sources, self.references, self.translations, strict=True):
            yield Row(*row)


def held_out_texts(corpora: Sequence[CorpusConfig], max_sentences: int) -> tuple[HeldOut, ...]:
    """The validation corpora by direction, of each direction at most `max_sentences` (0: all of them)."""
    texts: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for corpus in corpora:
        pairs = list(islice(read_pairs(corpus), max_sentences or None))
        for direction in corpus.directions:
            is_forward = direction[0] == corpus.source_language
            sides = pairs if is_forward else [(target, source) for source, target in pairs]
            kept = texts.setdefault(direction, [])
            kept.extend(sides)
            del kept[max_sentences or len(kept) :]
    return tuple(
        HeldOut(*direction, tuple(s for s, _ in sides), tuple(t for _, t in sides))
        for direction, sides in texts.items()
    )
