"""① Something there is only so much of, and how much of it each client has."""

from app.scheduling import share
from app.scheduling.tally import Tally


class Room:
    """A bound, within which no client gets more than its share.

    Args:
        size: How much there is.

    Attributes:
        taken: How much of it is in use.
    """

    def __init__(self, size: int) -> None:
        self.taken = 0
        self._size = size
        self._of_client = Tally()

    def fits(self, amount: int, client: str) -> bool:
        """Whether a client may take so much more."""
        return share.fits(amount, mine=self._of_client[client], free=self._size - self.taken)

    def take(self, amount: int, client: str) -> None:
        """Use so much, or give it back if it is negative."""
        self.taken += amount
        self._of_client.add(client, amount)
