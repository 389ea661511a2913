"""ⓓ What an alteration may look at beside the pair it alters."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from model.training.data.corpus import SentencePair

_LOWER_CASE_WORD = re.compile(r"\b[^\W\d_A-ZÀ-ÖØ-Þ][^\W\d_]+")


@dataclass(frozen=True)
class Surroundings:
    """Where a pair stands.

    Attributes:
        source_language: Code.
        target_language: Code.
        pairs: Its neighbours in the corpus, itself among them.
    """

    source_language: str
    target_language: str
    pairs: Sequence[SentencePair]

    @cached_property
    def common_words(self) -> frozenset[str]:
        """Words that stand in lower case somewhere among the neighbours, so that they are no names."""
        return frozenset(
            word for pair in self.pairs for side in pair for word in _LOWER_CASE_WORD.findall(side)
        )
