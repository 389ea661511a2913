"""⑤ What the sentences of a grid ask for between them: what nobody asks for is not computed. No torch."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from model.decoding.sentence import Sentence

ALL_RANKS = -1
_FEWEST_RANKS, _RANKS_AT_ONCE = 8, 64


@dataclass(frozen=True)
class Demands:
    """Known to the host, so that a step has no branch on numbers of the device.

    Attributes:
        beams: Somebody searches with beams.
        lanes: Somebody decodes greedily or samples.
        samples: Somebody samples.
        ranks: How many of the likeliest tokens must be put in order to cut a distribution: rounded up
            to a power of two; 0 is none, ALL_RANKS all.
        prefixes: Some translation has a given beginning.
        suppressed: Some ids are forbidden.
        lengths: Some translation has a least length.
        ngrams: Some n-grams may not repeat.
        repetition: Some repetition has a price.
        coverage: Somebody needs the attention to score by.
        alignment: Somebody needs the attention to return it.
    """

    beams: bool = False
    lanes: bool = False
    samples: bool = False
    ranks: int = 0
    prefixes: bool = False
    suppressed: bool = False
    lengths: bool = False
    ngrams: bool = False
    repetition: bool = False
    coverage: bool = False
    alignment: bool = False

    @classmethod
    def of(cls, sentences: Iterable[Sentence]) -> Self:
        """What these ask for."""
        present = list(sentences)
        options = [s.options for s in present]
        return cls(
            beams=any(o.strategy == "beam" for o in options),
            lanes=any(o.strategy != "beam" for o in options),
            samples=any(o.strategy == "sample" for o in options),
            ranks=_ranks([o.top_k for o in options if o.strategy == "sample" and (o.top_k or o.top_p < 1)]),
            prefixes=any(s.request.prefix_ids for s in present),
            suppressed=any(o.suppress_ids for o in options),
            lengths=any(s.shortest > 1 for s in present),
            ngrams=any(o.no_repeat_ngram_size for o in options),
            repetition=any(o.repetition_penalty != 1 for o in options),
            coverage=any(o.strategy == "beam" and o.coverage_penalty for o in options),
            alignment=any(o.return_alignment for o in options),
        )

    def coarse(self) -> Self:
        """At least the same, but of few kinds: each kind is recorded once for every size of a step."""
        is_special = self.prefixes or self.suppressed or self.history
        ranks = self.ranks if self.ranks in (0, ALL_RANKS) else max(self.ranks, _RANKS_AT_ONCE)
        return dataclasses.replace(
            self,
            ranks=ranks if ranks <= _RANKS_AT_ONCE else ALL_RANKS,
            prefixes=is_special,
            suppressed=is_special,
            ngrams=is_special,
            repetition=is_special,
            lengths=True,
        )

    @property
    def history(self) -> bool:
        """Whether the tokens that a hypothesis holds are looked at."""
        return self.ngrams or self.repetition

    @property
    def attention(self) -> bool:
        """Whether the weights over the source are looked at."""
        return self.coverage or self.alignment


def _ranks(limits: list[int]) -> int:
    if 0 in limits:
        return ALL_RANKS
    most = max(limits, default=0)
    return most and max(_FEWEST_RANKS, 1 << (most - 1).bit_length())
