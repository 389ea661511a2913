"""ⓕ How likely a source token is to be translated with each target token: IBM model 1, in NumPy.

Brown et al. 1993 (https://aclanthology.org/J93-2003): every target token comes from one of its
sentence's source tokens, and any of them is as likely. What EOS and language tags meet everywhere is
left to them, so that they are the paper's empty word.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.training.parallel_ids import Meetings, ParallelIds

Progress = Callable[[int], object]

ITERATIONS = 4
# Memory for about 24 bytes each; of more, those that meet least often are left out.
_MOST_ENTRIES = 2**24


@dataclass(frozen=True)
class Lexicon:
    """Probabilities of target tokens for source tokens; 0 for what it does not have.

    Attributes:
        target_vocab_size: Target ids that there are.
        keys: Source id × `target_vocab_size` + target id, ascending.
        probabilities: P(target | source) of each.
    """

    target_vocab_size: int
    keys: NDArray[np.int64]
    probabilities: NDArray[np.float64]

    @classmethod
    def learn(cls, pairs: ParallelIds, target_vocab_size: int, progress: Progress) -> "Lexicon":
        """Estimate it from at least one pair, by expectation and maximisation.

        Args:
            pairs: Parallel text.
            target_vocab_size: Target ids that there are.
            progress: Called with the number of pairs done since the last call; ITERATIONS + 1 times all.
        """
        lexicon = _uniform(pairs, target_vocab_size, progress)
        for _ in range(ITERATIONS):
            expected = np.zeros(len(lexicon.keys))
            for count, meetings in pairs.meetings():
                lexicon.expect(meetings, expected)
                progress(count)
            lexicon = cls(target_vocab_size, lexicon.keys, _normalised(expected, lexicon.sources))
        return lexicon

    @property
    def sources(self) -> NDArray[np.int64]:
        """Source id of each key."""
        return self.keys // self.target_vocab_size

    @property
    def targets(self) -> NDArray[np.int64]:
        """Target id of each key."""
        return self.keys % self.target_vocab_size

    def expect(self, meetings: Meetings, expected: NDArray[np.float64]) -> None:
        """Add how often each source token is expected to have become each target token."""
        keys = meetings.sources * self.target_vocab_size + meetings.targets
        places = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        shares = np.where(self.keys[places] == keys, self.probabilities[places], 0.0)
        totals = np.add.reduceat(shares, meetings.starts)
        lengths = np.diff(meetings.starts, append=len(shares))
        shares /= np.repeat(np.where(totals > 0, totals, 1.0), lengths)
        expected += np.bincount(places, shares, minlength=len(expected))

    def best(
        self, count: int, without: NDArray[np.integer[Any]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The likeliest `count` translations of each source token: source and target ids, by source.

        Args:
            count: At most so many of each.
            without: Target ids that are not wanted.
        """
        wanted = np.flatnonzero((self.probabilities > 0) & ~np.isin(self.targets, without))
        order = wanted[np.lexsort((-self.probabilities[wanted], self.sources[wanted]))]
        sources = self.sources[order]
        is_best = np.arange(len(order)) - np.searchsorted(sources, sources) < count
        return sources[is_best], self.targets[order[is_best]]


def _uniform(pairs: ParallelIds, target_vocab_size: int, progress: Progress) -> Lexicon:
    """Everything that meets is as likely to be a translation; expectations do not mind by what factor."""
    keys, counts = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    for count, meetings in pairs.meetings():
        new_keys, new_counts = np.unique(
            meetings.sources * target_vocab_size + meetings.targets, return_counts=True
        )
        keys, places = np.unique(np.concatenate([keys, new_keys]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([counts, new_counts]))
        if len(keys) > _MOST_ENTRIES:
            kept = np.sort(np.argpartition(counts, -_MOST_ENTRIES)[-_MOST_ENTRIES:])
            keys, counts = keys[kept], counts[kept]
        progress(count)
    return Lexicon(target_vocab_size, keys, np.ones(len(keys)))


def _normalised(weights: NDArray[np.float64], sources: NDArray[np.int64]) -> NDArray[np.float64]:
    totals = np.bincount(sources, weights)
    return weights / np.where(totals > 0, totals, 1.0)[sources]
