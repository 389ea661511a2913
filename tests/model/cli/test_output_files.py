"""Writing files, and telling which file is which."""

import gzip
import io
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from model.cli.main import Misuse
from model.cli.output_files import ResumableOutput, is_file_of, written
from model.translation.lines import read_lines
from tests.full_disk import largest_file


@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_what_was_written_is_read(tmp_path: Path, name: str) -> None:
    lines = ["one\u2028still one\n", "\r\n", "last"]
    with written(str(tmp_path / name)) as file:
        file.writelines(line.encode() for line in lines)
    with (tmp_path / name).open("rb") as file:
        assert list(read_lines(file)) == lines
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")


@pytest.mark.parametrize("name", ["out", "out.gz"])
def test_a_file_that_a_full_disk_cuts_short_is_not_taken_for_complete(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with largest_file(2), pytest.raises(OSError, match="File too large"), written(str(path)) as file:
        file.write(b"A\nB\n")
    assert [entry.name for entry in tmp_path.iterdir()] == [f"{name}.part"]
    with pytest.raises(Misuse, match=r"cannot continue .*part: .*part\.json is missing"):
        shout(path)


@pytest.mark.parametrize("name", ["out", "out.gz"])
def test_a_file_keeps_what_it_had_until_the_new_output_is_complete(tmp_path: Path, name: str) -> None:
    path, link = tmp_path / name, tmp_path / f"link-to-{name}"
    link.symlink_to(name)
    path.write_bytes(b"before")
    with written(str(link)) as file:
        file.write(b"after")
        file.flush()
        assert path.read_bytes() == b"before"
    assert link.is_symlink()
    with path.open("rb") as file:
        assert list(read_lines(file)) == ["after"]
    assert {entry.name for entry in tmp_path.iterdir()} == {path.name, link.name}


def test_a_file_that_can_be_continued_stays(tmp_path: Path) -> None:
    path = tmp_path / "out"
    shout(path, until=2)
    with pytest.raises(Misuse, match=r"out\.part is the begin .* --resume continues"), written(str(path)):
        pass
    assert shout(path) == ["c\n", "d"]
    assert path.read_bytes() == b"A\nB\nC\nD"


def test_only_regular_files_are_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-").touch()
    (tmp_path / "device").symlink_to(os.devnull)
    for name in ("-", "device"):
        with pytest.raises(KeyboardInterrupt), written(name):
            raise KeyboardInterrupt
    with pytest.raises(IsADirectoryError), written(str(tmp_path)):
        pass
    assert {entry.name for entry in tmp_path.iterdir()} == {"-", "device"}


def test_a_file_is_known_by_what_is_read_not_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "one").touch()
    (tmp_path / "link").symlink_to("one")
    (tmp_path / "other").touch()
    with (tmp_path / "one").open("rb") as file:
        names = ("one", "link", "other", "none")
        assert [is_file_of(file, tmp_path / name) for name in names] == [True, True, False, False]
    assert [is_file_of(tmp_path / "one", tmp_path / name) for name in names] == [True, True, False, False]
    with open(os.devnull, "rb") as device:
        assert not is_file_of(device, Path(os.devnull))
    assert not is_file_of(io.BytesIO(), tmp_path / "one")


COMMAND = {"languages": "en-fr", "--beam-size": 4, "--seed": None}
INPUT = ["a\n", "b\n", "c\n", "d"]


def shout(path: Path, lines: Sequence[str] = INPUT, *, until: int = 99, torn: str = "") -> list[str]:
    """Write the lines in capitals, two at a time, and be killed after so many; which were done anew."""
    unfinished, remaining = ResumableOutput(path), iter(lines)
    done = unfinished.resume(COMMAND, remaining)
    anew: list[str] = []
    with suppress(KeyboardInterrupt), unfinished.appended() as file:
        for number, line in enumerate(remaining, done + 1):
            if number > until:
                file.write(torn.encode())
                raise KeyboardInterrupt
            anew.append(line)
            file.write(line.upper().encode())
            if number % 2 == 0:
                unfinished.record(file, anew[-2:])
    return anew


def test_nothing_is_whole_before_its_end(tmp_path: Path) -> None:
    path = tmp_path / "out"
    shout(path, until=2, torn="C")
    assert (path.exists(), ResumableOutput(path).is_complete) == (False, False)
    assert shout(path) == ["c\n", "d"]
    assert path.read_bytes() == b"A\nB\nC\nD"
    assert ResumableOutput(path).is_complete
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_what_was_written_after_the_last_mark_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "out"
    shout(path, until=3)
    assert shout(path) == ["c\n", "d"]
    assert path.read_bytes() == b"A\nB\nC\nD"


@pytest.mark.parametrize("lose", [Path.unlink, lambda part: os.truncate(part, 0)])
def test_a_part_that_was_removed_or_emptied_is_begun_again(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    path = tmp_path / "out"
    shout(path, until=2)
    lose(tmp_path / "out.part")
    assert shout(path) == INPUT


@pytest.mark.parametrize(
    ("left", "reason"),
    [(b"A\n", r"has 1 lines, but out\.part\.json records 2"), (b"A\nB", "line 2 was cut short")],
)
def test_a_part_that_lost_lines_is_refused_and_kept(tmp_path: Path, left: bytes, reason: str) -> None:
    path, part = tmp_path / "out", tmp_path / "out.part"
    shout(path, until=2)
    part.write_bytes(left)
    with pytest.raises(Misuse, match=rf"cannot continue .*out\.part: it.* {reason}; repeat"):
        shout(path)
    assert part.read_bytes() == left


def test_a_kill_between_packing_and_tidying_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "out.gz"
    shout(path, INPUT[:3], until=2)
    path.write_bytes(gzip.compress(b"A\nB\n"))
    assert not ResumableOutput(path).is_complete
    assert shout(path, INPUT[:2]) == []
    assert gzip.decompress(path.read_bytes()) == b"A\nB\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.gz"]


def test_what_is_not_translated_yet_may_still_change(tmp_path: Path) -> None:
    path = tmp_path / "out"
    shout(path, until=2)
    assert shout(path, ["a\n", "b\n", "other\n"]) == ["other\n"]


@pytest.mark.parametrize("other", [["a\n", "x\n", "c\n"], ["a\n"], []])
def test_another_input_is_refused(tmp_path: Path, other: list[str]) -> None:
    path = tmp_path / "out"
    shout(path, until=2)
    with pytest.raises(Misuse, match=r"out\.part: the first 2 lines of the input are not those"):
        shout(path, other)
    assert shout(path) == ["c\n", "d"]


def test_another_command_is_refused_by_all_that_differs(tmp_path: Path) -> None:
    path = tmp_path / "out"
    shout(path, until=2)
    now = {"languages": "en-de", "--beam-size": 4, "--top-k": 1, "--seed": None}
    with pytest.raises(Misuse, match="begun with languages en-fr, now en-de; --top-k None, now 1; repeat"):
        ResumableOutput(path).resume(now, iter(INPUT))
    assert shout(path) == ["c\n", "d"]


def test_a_command_that_has_done_nothing_may_be_another(tmp_path: Path) -> None:
    path = tmp_path / "out"
    shout(path, until=0)
    assert ResumableOutput(path).resume({}, iter(INPUT)) == 0


def test_a_part_of_which_nothing_is_known_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out.part").write_text("A\n")
    with pytest.raises(Misuse, match=r"out\.part\.json is missing"):
        shout(tmp_path / "out")
    assert (tmp_path / "out.part").read_text() == "A\n"
