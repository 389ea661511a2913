"""⑤ What metrics may see of decoding: durations and counts, never text. No torch."""

from typing import Protocol


class Observer(Protocol):
    """Told by the engine what it did, on the engine's thread."""

    def encoded(self, seconds: float) -> None:
        """One batch went through the encoder and its decoder state was made."""

    def stepped(self, seconds: float, rows: int, sentences: int) -> None:
        """One decoder step ended.

        Args:
            seconds: Network, search and the host's look at what has finished.
            rows: Lanes that were computed, over all slots.
            sentences: Those that moved on by one target token.
        """

    def first_token(self, seconds: float) -> None:
        """One more sentence is known to have its first token, so long after it was added."""


class SilentObserver:
    """Observes nothing."""

    def encoded(self, seconds: float) -> None:
        """See Observer."""

    def stepped(self, seconds: float, rows: int, sentences: int) -> None:
        """See Observer."""

    def first_token(self, seconds: float) -> None:
        """See Observer."""
