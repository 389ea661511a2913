"""How an import refuses what it cannot read."""

from pathlib import Path

import pytest

from model.checkpoint.card import Pair
from model.checkpoint.importing.importer import import_model
from model.errors import TranslationError


def refused(path: Path, *words: str, format_name: str | None = None, pair: Pair | None = None) -> str:
    """Requires that an import is refused in one line with these words, and leaves nothing behind.

    Returns:
        The line.
    """
    before = set(path.parent.iterdir())
    with pytest.raises(TranslationError) as raised:
        import_model(path, path.parent / "refused", format_name=format_name, pair=pair)
    message = str(raised.value)
    assert "\n" not in message
    assert len(message) < 600
    for word in words:
        assert word in message, message
    assert set(path.parent.iterdir()) == before
    return message
