"""ⓕ Parallel text as token ids, side by side in two long arrays, and which ids of a pair meet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

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
