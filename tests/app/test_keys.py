from pathlib import Path

import pytest

from app.errors import KeyInvalidError, KeyMissingError
from app.keys import KeyRing
from model.errors import ConfigError
from tests.app.double import write_keys


def test_without_a_file_everybody_may_ask() -> None:
    assert KeyRing(None).identify(None) is None
    assert KeyRing(None).identify("anything") is None


def test_keys_are_told_apart(tmp_path: Path) -> None:
    ring = KeyRing(write_keys(tmp_path, alice="one", bob="two"))
    assert ring.identify("two") == "bob"
    for missing in (None, ""):
        with pytest.raises(KeyMissingError):
            ring.identify(missing)
    for wrong in ("three", "ONE", "one ", "\ud800", "é" * 1000):
        with pytest.raises(KeyInvalidError):
            ring.identify(wrong)


def test_comments_and_blank_lines_are_skipped(tmp_path: Path) -> None:
    path = write_keys(tmp_path, alice="one")
    path.write_text(f"# ours\n\n  {path.read_text().upper()}")
    assert KeyRing(path).identify("one") == "ALICE"


@pytest.mark.parametrize("line", ["open-sesame", "alice:open-sesame", ":" + "0" * 64, "alice:" + "0" * 63])
def test_a_bad_line_is_named_but_not_shown(tmp_path: Path, line: str) -> None:
    path = tmp_path / "keys"
    path.write_text(f"# first\n{line}\n")
    with pytest.raises(ConfigError, match="line 2") as refusal:
        KeyRing(path)
    assert "sesame" not in str(refusal.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("missing", "binary"):
        with pytest.raises(ConfigError, match=name):
            KeyRing(tmp_path / name)
