"""Whatever stops the writing, the target is the old folder or file or the new one, complete."""

import gzip
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from model import files
from model.files import atomic_folder, decoded_lines, restore, write_text_atomically
from tests.full_disk import largest_file


def write(folder: Path, content: str) -> None:
    with atomic_folder(folder) as temporary:
        (temporary / "file").write_text(content)


@pytest.mark.parametrize("exchanges", [True, False])
def test_an_existing_folder_is_replaced_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchanges: bool
) -> None:
    write(tmp_path / "model", "old")
    (tmp_path / "model" / "more").touch()
    if not exchanges:
        monkeypatch.setattr(files, "_exchange", lambda *_: False)
    write(tmp_path / "model", "new")
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["file"]
    assert (tmp_path / "model" / "file").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_a_link_leads_to_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    write(tmp_path / "v1", "old")
    (tmp_path / "current").symlink_to("v1")
    write(tmp_path / "current", "new")
    assert (tmp_path / "current").is_symlink()
    assert (tmp_path / "v1" / "file").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["current", "v1"]


def test_the_exchange_is_one_step_here(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    assert files._exchange(tmp_path / "one", tmp_path / "other") == sys.platform.startswith("linux")
    assert (tmp_path / "one" / "other").exists() == sys.platform.startswith("linux")


@pytest.mark.parametrize("there_before", [True, False])
def test_a_full_disk_leaves_what_was_there(tmp_path: Path, there_before: bool) -> None:
    folder = tmp_path / "model"
    if there_before:
        write(folder, "old")
    with largest_file(1000), pytest.raises(OSError, match="File too large") as caught:
        write(folder, "x" * 5000)
    assert caught.value.filename == str(folder)
    assert [path.name for path in tmp_path.iterdir()] == (["model"] if there_before else [])
    if there_before:
        assert (folder / "file").read_text() == "old"


def test_any_fault_leaves_what_was_there(tmp_path: Path) -> None:
    write(tmp_path / "model", "old")

    def interrupted() -> None:
        with atomic_folder(tmp_path / "model") as temporary:
            (temporary / "file").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (tmp_path / "model" / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_killed_writer_leaves_what_was_there(tmp_path: Path) -> None:
    write(tmp_path / "model", "old")
    script = (
        "import os, signal, sys, pathlib\n"
        "from model.files import atomic_folder\n"
        "with atomic_folder(pathlib.Path(sys.argv[1])) as temporary:\n"
        "    (temporary / 'file').write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "model")]
    assert subprocess.run(command, check=False, cwd=os.getcwd(), timeout=300).returncode == -9
    assert (tmp_path / "model" / "file").read_text() == "old"
    write(tmp_path / "model", "new")
    assert (tmp_path / "model" / "file").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("error", [OSError("busy"), KeyboardInterrupt()])
def test_a_fault_between_two_renames_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    write(tmp_path / "model", "old")
    rename = Path.rename

    def rename_or_fail(path: Path, target: Path) -> Path:
        if path.name == ".model.writing":
            raise error
        return rename(path, target)

    monkeypatch.setattr(files, "_exchange", lambda *_: False)
    monkeypatch.setattr(Path, "rename", rename_or_fail)
    with pytest.raises(type(error)):
        write(tmp_path / "model", "new")
    assert (tmp_path / "model" / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def crash_between_renames(folder: Path) -> None:
    """Leave behind what a crash leaves where the file system cannot exchange folders."""
    write(folder, "old")
    folder.rename(folder.with_name(f".{folder.name}.previous"))
    folder.with_name(f".{folder.name}.writing").mkdir()


def test_a_crash_between_two_renames_is_put_right(tmp_path: Path) -> None:
    crash_between_renames(tmp_path / "model")
    for _ in range(2):
        restore(tmp_path / "model")
        assert (tmp_path / "model" / "file").read_text() == "old"
    restore(tmp_path / "never" / "written")
    assert not (tmp_path / "never").exists()
    write(tmp_path / "never" / "written", "new")
    assert (tmp_path / "never" / "written" / "file").read_text() == "new"


def test_the_next_writer_puts_a_crash_right_first(tmp_path: Path) -> None:
    crash_between_renames(tmp_path / "model")
    with largest_file(1000), pytest.raises(OSError):
        write(tmp_path / "model", "x" * 5000)
    assert (tmp_path / "model" / "file").read_text() == "old"
    write(tmp_path / "model", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file/model"):
        write(tmp_path / "file" / "model", "new")


def test_all_that_lies_in_a_folder_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[Path] = []
    flush = files._flush
    monkeypatch.setattr(files, "_flush", lambda path: (flushed.append(path), flush(path)))
    with atomic_folder(tmp_path / "model") as temporary:
        (temporary / "deep" / "deeper").mkdir(parents=True)
        (temporary / "deep" / "deeper" / "file").touch()
        (temporary / "nowhere").symlink_to(tmp_path / "nowhere")
    within = [str(path.relative_to(temporary)) for path in flushed if path.is_relative_to(temporary)]
    assert sorted(within) == [".", "deep", "deep/deeper", "deep/deeper/file"]
    assert flushed[-1] == tmp_path


def test_a_file_is_replaced_whole_or_kept(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text_atomically(path, "né\n")
    with largest_file(1000), pytest.raises(OSError, match="File too large"):
        write_text_atomically(path, "x" * 5000)
    assert path.read_text(encoding="utf-8") == "né\n"
    write_text_atomically(path, "new")
    assert path.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    flush, replace = files._flush, Path.replace
    monkeypatch.setattr(files, "_flush", lambda path: (order.append(path.name), flush(path)))
    monkeypatch.setattr(Path, "replace", lambda old, new: (order.append("renamed"), replace(old, new))[1])
    write_text_atomically(tmp_path / "file", "text")
    assert order == [".file.writing", "renamed", tmp_path.name]


LINES = ["one\u2028still one\n", "\r\n", "\ufefftwo\n", "last"]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("packed", [False, True])
def test_lines_of_a_file_and_of_a_stream(tmp_path: Path, mark: str, packed: bool) -> None:
    content = (mark + "".join(LINES)).encode()
    content = gzip.compress(content, mtime=0) if packed else content
    (tmp_path / "text").write_bytes(content)
    with (tmp_path / "text").open("rb") as file:
        assert list(decoded_lines(file)) == LINES
    stream = io.BytesIO(content)
    assert list(decoded_lines(stream)) == LINES
    assert not stream.closed
    assert list(decoded_lines(stream)) == []


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"a\n\xff\n", UnicodeDecodeError),
        (gzip.compress(b"a\n", mtime=0)[:-9], EOFError),
        (b"\x1f\x8b", EOFError),
    ],
)
def test_what_is_broken_is_no_line(content: bytes, fault: type[Exception]) -> None:
    with pytest.raises(fault):
        list(decoded_lines(io.BytesIO(content)))
