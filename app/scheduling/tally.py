"""④ Sums by name that keep no zeros, so that names which are gone take no room."""


class Tally(dict[str, int]):
    """A sum for each name; 0 for those that were never mentioned."""

    def __missing__(self, name: str) -> int:
        return 0

    def add(self, name: str, amount: int) -> int:
        """Add to a sum, possibly something negative.

        Returns:
            The sum.
        """
        total = self[name] + amount
        if total:
            self[name] = total
        else:
            self.pop(name, None)
        return total
