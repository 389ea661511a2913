"""Characters by owner of a key, and together for clients without one."""

from errno import ENOSPC
from pathlib import Path
from unittest.mock import Mock

import pytest

from app.admission.usage import Usage


def test_addresses_share_one_count() -> None:
    usage = Usage()
    usage.add("address:10.0.0.1", 3)
    usage.add("address:10.0.0.2", 4)
    assert usage.characters("address:10.0.0.3") == 7


def test_a_count_that_cannot_be_written_is_written_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    usage, other = Usage(tmp_path, 0), Usage(tmp_path, 1)
    with monkeypatch.context() as full:
        full.setattr(Path, "write_text", Mock(side_effect=OSError(ENOSPC, "No space left on device")))
        usage.add("key:ali", 3)
    assert [record.message for record in caplog.records] == ["the characters of a client cannot be written"]
    assert other.characters("key:ali") == 0
    usage.add("key:ali", 4)
    assert other.characters("key:ali") == 7
