"""⑤ Which entries of the pool are free. No torch."""

from model.errors import DecodingError


class FreeEntries:
    """Entries that nobody uses; those given back last are taken first, while they are warm.

    Args:
        first: The first one.
        count: How many there are.
    """

    def __init__(self, first: int, count: int) -> None:
        self._free = list(range(first + count - 1, first - 1, -1))

    def __len__(self) -> int:
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """So many entries.

        Raises:
            DecodingError: If there are fewer; whoever admits sentences keeps to the budget.
        """
        if count > len(self._free):
            raise DecodingError(f"the decoder state has room for {len(self._free)} more, not {count}")
        cut = len(self._free) - count
        taken = self._free[cut:][::-1]
        del self._free[cut:]
        return taken

    def give_back(self, entries: list[int]) -> None:
        """These are free again."""
        self._free += entries
