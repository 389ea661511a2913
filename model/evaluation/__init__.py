"""Evaluation of translations: BLEU, chrF, confidence intervals, and tuning of the search.

`scores` computes them with their signatures, `systems` reports what a checkpoint or a file of translations
scores, and `tuning` tries searches on held-out text. The validation of a training run is in
`model.training`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

Metric = Literal["bleu", "chrf"]
METRIC_NAMES: Mapping[Metric, str] = {"bleu": "BLEU", "chrf": "chrF"}
References = Sequence[Sequence[str | None]]
"""Columns: the first reference of every sentence, then the second, …; None if a sentence has fewer."""


@dataclass(frozen=True)
class EvaluationText:
    """Sentences and any number of references for each.

    Attributes:
        sources: The sentences to translate.
        references: See `References`.
    """

    sources: Sequence[str]
    references: References

    def reversed(self) -> Self:
        """Returns the text of the other direction: the first references become the sources."""
        return type(self)([text or "" for text in self.references[0]], [self.sources])


@dataclass(frozen=True)
class HeldOut:
    """Sentences of one direction with one reference each.

    Attributes:
        source_language: Code.
        target_language: Code.
        sources: The sentences to translate.
        references: One for each sentence.
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
        """The direction as `source-target`."""
        return "-".join(self.direction)
