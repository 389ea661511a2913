"""`dragoman key`: makes keys that the service then takes."""

import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.admission.keys import KeyRing
from app.cli import key
from model.cli import main
from tests.full_disk import largest_file


def made(output: str) -> str:
    return output.splitlines()[0].removeprefix("key:  ")


def test_the_key_is_shown_once_and_its_line_lets_it_in(tmp_path: Path) -> None:
    result = CliRunner().invoke(key, ["alice"])
    secret, line = made(result.stdout), result.stdout.splitlines()[1].removeprefix("line: ")
    assert len(secret) > 40
    assert secret not in line
    file = tmp_path / "keys"
    file.write_text(line)
    assert KeyRing(file).identify(secret) == "alice"


def test_lines_are_added_and_the_file_never_holds_a_key(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    first = CliRunner().invoke(key, ["alice", "--file", str(file)])
    file.write_text(file.read_text().rstrip())
    second = CliRunner().invoke(key, ["alice", "--file", str(file)])
    third = CliRunner().invoke(key, ["bob", "--file", str(file)])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    ring = KeyRing(file)
    owners = [ring.identify(made(result.stdout)) for result in (first, second, third)]
    assert owners == ["alice", "alice", "bob"]
    assert made(first.stdout) != made(second.stdout)
    assert made(first.stdout) not in file.read_text()
    assert len(first.stdout.splitlines()) == 1


@pytest.mark.parametrize("name", ["", "a:b", "#a", " a", "a\nb", "a\x1bb"])
def test_a_name_that_the_file_cannot_hold_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "keys"
    result = CliRunner().invoke(main, ["key", name, "--file", str(file)])
    assert (result.exit_code, len(result.stderr.splitlines()), file.exists()) == (2, 1, False)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "no" / "keys"
    result = CliRunner().invoke(main, ["key", "alice", "--file", str(missing)])
    assert result.stderr == f"dragoman: {missing} cannot be written: No such file or directory\n"
    assert (result.exit_code, result.stdout) == (1, "")
    other = tmp_path / "other"
    other.write_bytes(b"\xff")
    result = CliRunner().invoke(main, ["key", "alice", "--file", str(other)])
    assert result.stderr.startswith(f"dragoman: {other} cannot be written: it is not text")
    assert (result.exit_code, result.stdout, other.read_bytes()) == (2, "", b"\xff")


def test_a_full_disk_leaves_the_file_of_keys_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    CliRunner().invoke(main, ["key", "alice", "--file", str(file)])
    before = file.read_bytes()
    with largest_file(len(before) + 10):
        result = CliRunner().invoke(main, ["key", "bob", "--file", str(file)])
    assert result.stderr == f"dragoman: {file} cannot be written: File too large\n"
    assert (result.exit_code, result.stdout, file.read_bytes()) == (1, "", before)
