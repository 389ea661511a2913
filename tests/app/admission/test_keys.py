import hmac
import logging
import os
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.admission.keys import KeyRing, line_of
from app.errors import KeyInvalidError, KeyMissingError, KeysUnreadableError
from model.errors import ConfigError
from tests.app.double import write_keys


def test_keys_are_told_apart(tmp_path: Path) -> None:
    ring = KeyRing(write_keys(tmp_path, alice="one", bob="two"))
    assert ring.identify("two") == "bob"
    for missing in (None, ""):
        with pytest.raises(KeyMissingError):
            ring.identify(missing)
    for wrong in ("three", "ONE", "one ", "\ud800", "é" * 1000):
        with pytest.raises(KeyInvalidError):
            ring.identify(wrong)


def test_comments_blank_lines_and_a_byte_order_mark_are_skipped(tmp_path: Path) -> None:
    path = write_keys(tmp_path, alice="one")
    line = path.read_text()
    path.write_text(line, encoding="utf-8-sig")
    assert KeyRing(path).identify("one") == "alice"
    path.write_text(f"# ours\n\n  {line.upper()}")
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


def test_a_key_is_revoked_although_the_file_looks_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two changes within a tick of the clock leave one time, and may leave one size."""
    path = tmp_path / "keys"
    path.write_text(line_of("alice", "one"))
    status = path.stat()
    monkeypatch.setattr("app.admission.keys.time", SimpleNamespace(time_ns=lambda: status.st_mtime_ns))
    ring = KeyRing(path)
    assert ring.identify("one") == "alice"
    path.write_text(line_of("alice", "two"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(KeyInvalidError):
        ring.identify("one")


def test_a_settled_file_is_not_read_again_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys"
    path.write_text(line_of("alice", "one"))
    os.utime(path, (1, 1))
    ring = KeyRing(path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", None)
        assert ring.identify("one") == "alice"
    path.write_text(line_of("alice", "two"))
    with pytest.raises(KeyInvalidError):
        ring.identify("one")


def test_uses_are_counted_for_owners_of_keys(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"{line_of('alice', 'one')}\n{line_of('bob', 'two')}\n")
    ring = KeyRing(path)
    for owner in ("alice", "alice", "bob", "carol", "address:::1"):
        ring.count(owner)
    assert ring.uses == {"alice": 2, "bob": 1}
    path.write_text(line_of("alice", "three"))
    assert ring.identify("three") == "alice"
    assert ring.uses == {"alice": 2}


def test_a_broken_file_is_logged_once_and_so_is_its_repair(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = write_keys(tmp_path, alice="one")
    ring = KeyRing(path)
    for _ in range(2):
        path.unlink()
        for _ in range(3):
            with pytest.raises(KeysUnreadableError):
                ring.identify("one")
        write_keys(tmp_path, alice="one")
        for _ in range(3):
            assert ring.identify("one") == "alice"
    broken, mended = "the file of API keys cannot be read", "the file of API keys can be used again"
    assert caplog.messages == [broken, mended] * 2


def test_a_malformed_line_locks_nobody_out_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = write_keys(tmp_path, alice="one", bob="two")
    ring = KeyRing(path)
    for number in (2, 3):
        path.write_text("# keys\n" * (number - 1) + "open-sesame\n" + line_of("carol", "three"))
        for _ in range(3):
            assert [ring.identify("one"), ring.identify("two")] == ["alice", "bob"]
            with pytest.raises(KeyInvalidError):
                ring.identify("three")
    assert caplog.messages == ["the file of API keys is malformed; the keys read before stay valid"] * 2
    assert [record.__dict__["reason"] for record in caplog.records] == [f"{path}, line 2", f"{path}, line 3"]
    assert "sesame" not in caplog.text
    write_keys(tmp_path, bob="two")
    with pytest.raises(KeyInvalidError):
        ring.identify("one")
    assert caplog.messages[-1] == "the file of API keys can be used again"


@pytest.mark.parametrize("key", ["first", "last", "wrong"])
def test_every_digest_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    ring = KeyRing(write_keys(tmp_path, a="first", b="second", c="last"))
    compared = []

    def compare(left: bytes, right: bytes) -> bool:
        compared.append((len(left), len(right)))
        return left == right

    monkeypatch.setattr(hmac, "compare_digest", compare)
    with suppress(KeyInvalidError):
        ring.identify(key)
    assert compared == [(32, 32)] * 3
