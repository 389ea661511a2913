"""⑨ How many characters each client has had translated."""

from collections import Counter


class Usage:
    """Counts by owner of a key, and all who need none together, so that it stays small.

    It begins with the process and is forgotten with it.
    """

    def __init__(self) -> None:
        self._characters: Counter[str] = Counter()

    def add(self, client: str, characters: int) -> None:
        """Count what a client has had translated.

        Args:
            client: `key:NAME` or `address:…`.
            characters: Of the source texts.
        """
        self._characters[_owner(client)] += characters

    def characters(self, client: str) -> int:
        """What this client, or all who need no key, have had translated so far."""
        return self._characters[_owner(client)]


def _owner(client: str) -> str:
    return client if client.startswith("key:") else ""
