"""⑨ Characters translated for each client, as DeepL's clients ask for them."""

import json
import logging
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from app.admission.keys import owner_of

logger = logging.getLogger(__name__)


class Usage:
    """Counts characters by owner of a key, and together for all clients without a key.

    The counts start with the service and are not kept after its end.

    Args:
        folder: Where several processes leave their counts for each other; None for one process.
        index: Number of this process.
    """

    def __init__(self, folder: Path | None = None, index: int = 0) -> None:
        self._characters: Counter[str] = Counter()
        self._folder = folder
        if folder is not None:
            folder.mkdir(exist_ok=True)
            self._own = folder / str(index)
            self._characters.update(_read(self._own))

    def add(self, client: str, characters: int) -> None:
        """Count the characters of a client's source texts.

        Args:
            client: `key:OWNER` or `address:HOST`.
            characters: Length of the source texts.
        """
        self._characters[owner_of(client)] += characters
        if self._folder is not None:
            unfinished = self._own.with_suffix(".new")
            try:
                unfinished.write_text(json.dumps(self._characters), encoding="utf-8")
                unfinished.replace(self._own)
            except OSError as fault:  # the text is translated all the same, and the next one writes the sum
                logger.error("the characters of a client cannot be written", exc_info=fault)

    def characters(self, client: str) -> int:
        """Characters translated for this client, or if it has no key for all clients without one."""
        if self._folder is None:
            return self._characters[owner_of(client)]
        return sum(_read(path).get(owner_of(client), 0) for path in self._folder.iterdir() if not path.suffix)


def _read(path: Path) -> Mapping[str, int]:
    """Returns what a process has counted; nothing if there is no such file, as yet or any more."""
    try:
        counted: Mapping[str, int] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return counted
