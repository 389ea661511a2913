"""ⓕ A lexicon of token pairs (IBM model 1), and the shortlist that is made of it.

Brown et al. 1993 (https://aclanthology.org/J93-2003): every target token comes from one of its
sentence's source tokens, and any of them is as likely. What EOS and language tags meet everywhere is
left to them, so that they are the paper's empty word.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from model.checkpoint.shortlist import Ids, Shortlist
from model.text.tokenizer import Tokenizer

_CELLS_AT_ONCE = 2**21


@dataclass(frozen=True)
class Meetings:
    """Every source token of a few pairs with every target token of the same pair.

    Attributes:
        sources: Source id of each meeting.
        targets: Target id of each meeting; those of one target position are neighbours.
        starts: Where the meetings of each target position begin.
    """

    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    starts: NDArray[np.int64]


@dataclass(frozen=True)
class ParallelIds:
    """Sentence pairs; pair i is `sources[source_ends[i]:source_ends[i + 1]]`, and so on.

    Attributes:
        sources: Source ids of all pairs.
        source_ends: From 0.
        targets: Target ids of all pairs.
        target_ends: From 0.
    """

    sources: NDArray[np.int32]
    source_ends: NDArray[np.int64]
    targets: NDArray[np.int32]
    target_ends: NDArray[np.int64]

    @classmethod
    def of(cls, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Self:
        """Pairs of at least one token on either side."""
        return cls(*_joined([source for source, _ in pairs]), *_joined([target for _, target in pairs]))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """All pairs of several."""
        return cls(
            np.concatenate([part.sources for part in parts]),
            _ends(np.concatenate([np.diff(part.source_ends) for part in parts])),
            np.concatenate([part.targets for part in parts]),
            _ends(np.concatenate([np.diff(part.target_ends) for part in parts])),
        )

    def __len__(self) -> int:
        return len(self.source_ends) - 1

    def meetings(self) -> Iterator[tuple[int, Meetings]]:
        """Everything that meets, a few pairs at a time: how many pairs, and their meetings."""
        cells = np.cumsum(np.diff(self.source_ends) * np.diff(self.target_ends))
        cuts = np.searchsorted(cells, np.arange(_CELLS_AT_ONCE, int(cells[-1]), _CELLS_AT_ONCE))
        for first, end in pairwise(np.unique([0, *cuts, len(self)]).tolist()):
            yield end - first, self._meetings(first, end)

    def _meetings(self, first: int, end: int) -> Meetings:
        """Of these pairs."""
        lengths = np.diff(self.target_ends[first : end + 1])
        targets = self.targets[self.target_ends[first] : self.target_ends[end]].astype(np.int64)
        # Of each target position: where its source begins, and how long that is.
        begins = np.repeat(self.source_ends[first:end], lengths)
        counts = np.repeat(np.diff(self.source_ends[first : end + 1]), lengths)
        starts = np.cumsum(counts) - counts
        places = np.arange(int(counts.sum())) + np.repeat(begins - starts, counts)
        return Meetings(self.sources[places].astype(np.int64), np.repeat(targets, counts), starts)


def _joined(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    ids = np.fromiter((token for row in rows for token in row), dtype=np.int32)
    return ids, _ends(np.array([len(row) for row in rows], dtype=np.int64))


def _ends(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])


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


def make_shortlist(
    pairs: ParallelIds, lexicon: Lexicon, tokenizer: Tokenizer, *, per_token: int, always: int
) -> Shortlist:
    """The likeliest translations of every source token, and the most frequent target tokens for all.

    Where both sides share a vocabulary, a token is always a candidate of its own: names and numbers
    can be copied. EOS always is one.

    Args:
        pairs: Parallel text.
        lexicon: Learned from it.
        tokenizer: Of the checkpoint; the ids are its own.
        per_token: Translations of each source token, beside those.
        always: Frequent target tokens, or fewer if the text has fewer.
    """
    frequent = _frequent(pairs.targets, always, tokenizer.eos_id)
    sources, targets = lexicon.best(per_token, without=frequent)
    if tokenizer.is_shared:
        own = np.arange(tokenizer.source_vocab_size)
        sources, targets = np.concatenate([sources, own]), np.concatenate([targets, own])
    keys = np.unique(sources * tokenizer.target_vocab_size + targets)
    lengths = np.bincount(keys // tokenizer.target_vocab_size, minlength=tokenizer.source_vocab_size)
    return Shortlist(
        always=frequent,
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        candidates=(keys % tokenizer.target_vocab_size).astype(np.int32),
    )


def _frequent(ids: NDArray[np.int32], count: int, eos_id: int) -> Ids:
    frequencies = np.bincount(ids)
    order = np.argsort(-frequencies, kind="stable")[:count]
    return np.union1d(order[frequencies[order] > 0], [eos_id]).astype(np.int32)
