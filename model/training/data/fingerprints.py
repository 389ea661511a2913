"""ⓑ A set of 64-bit fingerprints in eight bytes each, so that large corpora can be deduplicated."""

from bisect import bisect_left

import numpy as np
import numpy.typing as npt

_RECENT_LIMIT = 250_000


class FingerprintSet:
    """Integers below 2**64: the recent ones in a hash set, all others in one sorted array.

    Args:
        recent_limit: Size at which the hash set is merged into the array.
    """

    def __init__(self, *, recent_limit: int = _RECENT_LIMIT) -> None:
        self._recent_limit = recent_limit
        self._recent: set[int] = set()
        self._sorted: npt.NDArray[np.uint64] = np.empty(0, dtype=np.uint64)

    def add(self, fingerprint: int) -> bool:
        """Add one; False if it was there already."""
        if fingerprint in self._recent or self._is_settled(fingerprint):
            return False
        self._recent.add(fingerprint)
        if len(self._recent) >= self._recent_limit:
            self._settle()
        return True

    def __len__(self) -> int:
        return len(self._recent) + len(self._sorted)

    def _is_settled(self, fingerprint: int) -> bool:
        settled = self._sorted.data  # bisect reads single elements of a buffer ten times faster
        place = bisect_left(settled, fingerprint)
        return place < len(settled) and settled[place] == fingerprint

    def _settle(self) -> None:
        recent = np.fromiter(self._recent, dtype=np.uint64, count=len(self._recent))
        self._recent.clear()
        recent.sort()
        self._sorted = np.concatenate((self._sorted, recent))
        self._sorted.sort(kind="stable")  # in place, and it merges what is in order already
