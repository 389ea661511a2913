"""ⓓ Which copies a pair has: as many of each kind as its rate says, decided by the pair itself."""

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from model.training.config.data import AUGMENTATION_KINDS, AugmentationConfig
from model.training.data.augmentation.context import Surroundings
from model.training.data.augmentation.sentences import joined, without_final_stop
from model.training.data.augmentation.synthetic_entities import with_something_carried
from model.training.data.augmentation.typing_habits import (
    capitalised,
    in_capitals,
    in_lower_case,
    in_plain_letters,
    with_typing_errors,
)
from model.training.data.corpus import SentencePair

AUGMENTATION_VERSION = 4
"""Another number is another way to alter: text that is tokenised already is then done again."""

Alteration = Callable[[SentencePair, Surroundings, Random], SentencePair | None]

ALTERATIONS: Mapping[str, Alteration] = {
    "no_final_stop": without_final_stop,
    "capitals": in_capitals,
    "capitalised": capitalised,
    "lowercase": in_lower_case,
    "plain_letters": in_plain_letters,
    "typing_errors": with_typing_errors,
    "joined": joined,
    "copied": with_something_carried,
}

_NUMBERS = struct.Struct(f"<{len(AUGMENTATION_KINDS)}Q")


class Copy(NamedTuple):
    """An altered pair, and how it was altered."""

    kind: str
    pair: SentencePair


class Augmenter:
    """Makes altered copies; the same pair among the same neighbours always has the same ones."""

    def __init__(self, config: AugmentationConfig) -> None:
        self._seed = config.seed
        self._rates = config.rates

    def copies(
        self, pairs: Sequence[SentencePair], source_language: str, target_language: str
    ) -> Iterator[Copy]:
        """Copies of neighbouring pairs in one direction, in their order; none is equal to its pair."""
        if not any(self._rates.values()):
            return
        around = Surroundings(source_language, target_language, pairs)
        for pair in pairs:
            yield from self._copies(pair, around)

    def _copies(self, pair: SentencePair, around: Surroundings) -> Iterator[Copy]:
        for kind, number in zip(AUGMENTATION_KINDS, self._numbers(pair, around), strict=True):
            times = int(self._rates[kind] + number / 2**64)
            if not times:
                continue
            generator = Random(number)  # noqa: S311  nothing secret
            altered = (ALTERATIONS[kind](pair, around, generator) for _ in range(times))
            yield from (Copy(kind, copy) for copy in altered if copy is not None and copy != pair)

    def _numbers(self, pair: SentencePair, around: Surroundings) -> tuple[int, ...]:
        """Random numbers below 2**64, one a kind: a generator for each pair would cost ten times as much."""
        parts = (str(self._seed), around.source_language, around.target_language, *pair)
        digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=_NUMBERS.size).digest()
        return _NUMBERS.unpack(digest)
