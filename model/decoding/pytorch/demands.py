"""⑤ What the sentences of a grid ask for between them: what nobody asks for is not computed. No torch."""

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from model.decoding.sentence import ALL_RANKS, Sentence
from model.request import DecodeOptions

_FEWEST_RANKS, _RANKS_AT_ONCE = 8, 64


@dataclass(frozen=True)
class Demands:
    """Known to the host, so that a step has no branch on numbers of the device.

    Attributes:
        beams: Somebody searches with beams.
        lanes: Somebody decodes greedily or samples.
        samples: Somebody samples.
        ranks: How many of the likeliest tokens must be put in order to cut a distribution: rounded up
            to a power of two; ALL_RANKS is all.
        prefixes: Some translation has a given beginning.
        suppressed: Some ids are forbidden.
        shortlisted: Somebody has candidates.
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
    shortlisted: bool = False
    lengths: bool = False
    ngrams: bool = False
    repetition: bool = False
    coverage: bool = False
    alignment: bool = False

    @classmethod
    def of(cls, sentence: Sentence) -> Self:
        """What one sentence asks for."""
        options = sentence.options
        samples, beams = options.strategy == "sample", options.strategy == "beam"
        return cls(
            beams=beams,
            lanes=not beams,
            samples=samples,
            ranks=_ranks(options) if samples else 0,
            prefixes=bool(sentence.request.prefix_ids),
            suppressed=bool(options.suppress_ids),
            shortlisted=sentence.candidates is not None,
            lengths=sentence.shortest > 1,
            ngrams=options.no_repeat_ngram_size > 0,
            repetition=options.repetition_penalty != 1,
            coverage=beams and options.coverage_penalty > 0,
            alignment=options.return_alignment,
        )

    @classmethod
    def union(cls, kinds: Iterable[Self]) -> Self:
        """What several sentences ask for between them."""
        return cls(*map(max, zip(cls(), *kinds, strict=True)))

    def __iter__(self) -> Iterator[int]:
        return (getattr(self, field.name) for field in dataclasses.fields(self))

    def coarse(self) -> Self:
        """At least the same, but of few kinds: each kind is recorded once for every size of a step."""
        is_special = self.prefixes or self.suppressed or self.history
        few = _RANKS_AT_ONCE if self.ranks else 0
        return dataclasses.replace(
            self,
            ranks=few if self.ranks <= few else ALL_RANKS,
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


def _ranks(options: DecodeOptions) -> int:
    if options.top_k:
        return max(_FEWEST_RANKS, 1 << (options.top_k - 1).bit_length())
    return ALL_RANKS if options.top_p < 1 else 0
