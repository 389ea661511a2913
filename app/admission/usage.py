"""⑨ Characters translated for each client, as DeepL's clients ask for them."""

from collections import Counter


class Usage:
    """Counts characters by owner of a key, and together for all clients without a key.

    The counts start with the process and are not stored.
    """

    def __init__(self) -> None:
        self._characters: Counter[str] = Counter()

    def add(self, client: str, characters: int) -> None:
        """Count the characters of a client's source texts.

        Args:
            client: `key:OWNER` or `address:HOST`.
            characters: Length of the source texts.
        """
        self._characters[_owner(client)] += characters

    def characters(self, client: str) -> int:
        """Characters translated for this client, or if it has no key for all clients without one."""
        return self._characters[_owner(client)]


def _owner(client: str) -> str:
    return client if client.startswith("key:") else ""
