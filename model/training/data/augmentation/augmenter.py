"""ⓓ Chooses the altered copies of each pair, by the rates of the configuration and a hash of the pair."""

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from model.training.config.sections import AUGMENTATION_KINDS, AugmentationConfig
from model.training.data.augmentation.alterations import (
    SentenceContext,
    capitalised,
    in_capitals,
    in_lower_case,
    in_plain_letters,
    joined,
    with_typing_errors,
    without_final_stop,
)
from model.training.data.augmentation.synthetic_entities import with_synthetic_entity
from model.training.data.corpus import SentencePair

AUGMENTATION_VERSION = 4
"""Raised whenever an alteration changes, so that stored tokenised text is made anew."""

Alteration = Callable[[SentencePair, SentenceContext, Random], SentencePair | None]

ALTERATIONS: Mapping[str, Alteration] = {
    "no_final_stop": without_final_stop,
    "capitals": in_capitals,
    "capitalised": capitalised,
    "lowercase": in_lower_case,
    "plain_letters": in_plain_letters,
    "typing_errors": with_typing_errors,
    "joined": joined,
    "copied": with_synthetic_entity,
}

_NUMBERS = struct.Struct(f"<{len(AUGMENTATION_KINDS)}Q")


class Copy(NamedTuple):
    """An altered pair, and the kind of its alteration."""

    kind: str
    pair: SentencePair


class Augmenter:
    """Makes altered copies; the same pair in the same context always has the same copies."""

    def __init__(self, config: AugmentationConfig) -> None:
        self._seed = config.seed
        self._rates = config.rates

    def copies(
        self, pairs: Sequence[SentencePair], source_language: str, target_language: str
    ) -> Iterator[Copy]:
        """Copies of adjacent pairs in one direction, in their order; none is equal to its pair."""
        if not any(self._rates.values()):
            return
        context = SentenceContext(source_language, target_language, pairs)
        for pair in pairs:
            yield from self._copies(pair, context)

    def _copies(self, pair: SentencePair, context: SentenceContext) -> Iterator[Copy]:
        for kind, number in zip(AUGMENTATION_KINDS, self._numbers(pair, context), strict=True):
            times = int(self._rates[kind] + number / 2**64)
            if not times:
                continue
            generator = Random(number)  # noqa: S311  nothing secret
            altered = (ALTERATIONS[kind](pair, context, generator) for _ in range(times))
            yield from (Copy(kind, copy) for copy in altered if copy is not None and copy != pair)

    def _numbers(self, pair: SentencePair, context: SentenceContext) -> tuple[int, ...]:
        """Random numbers below 2**64, one per kind; a generator per pair would take ten times as long."""
        parts = (str(self._seed), context.source_language, context.target_language, *pair)
        digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=_NUMBERS.size).digest()
        return _NUMBERS.unpack(digest)
