"""`dragoman translate`: lines stay lines, documents keep their shape, errors name the line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from model.cli import translate as module
from tests.model.cli.conftest import Run


def test_lines_from_standard_input(run: Run) -> None:
    result = run("translate", "--source", "en", "--target", "fr", stdin="Good morning.\nThank you.\n")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Bonjour.\nMerci.\n", "")


def test_white_space_and_line_ends_survive(run: Run) -> None:
    text = "\n  Thank you.\r\n\nThe cat sleeps.  The dog sleeps.\nI am hungry."
    expected = "\n  Merci.\r\n\nLe chat dort.  Le chien dort.\nJ'ai faim."
    for mode in ([], ["--document"]):
        assert (
            run("translate", "-s", "en", "-t", "fr", *mode, "-", stdin=text).stdout_bytes == expected.encode()
        )


def test_from_file_to_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("Merci.\n")
    result = run("translate", "-s", "fr", "-t", "en", tmp_path / "in", "-o", tmp_path / "out")
    assert (result.exit_code, result.output) == (0, "")
    assert (tmp_path / "out").read_text() == "Thank you.\n"


@pytest.mark.parametrize(
    ("text", "translation"),
    [("Where is the station?", "Où est la gare ?"), ("Où est la gare ?", "Where is the station?")],
)
def test_what_goes_without_saying_may_be_left_out(run: Run, text: str, translation: str) -> None:
    assert run("translate", stdin=text).stdout == translation
    assert run("translate", "--source", "auto", stdin=text).stdout == translation


def test_a_named_target_settles_the_source(run: Run) -> None:
    assert run("translate", "--target", "fr", stdin="Merci. Bonjour.").exit_code == 0
    assert run("translate", "--target", "fr", stdin="Thank you.").stdout == "Merci."
    assert run("translate", "--target", "EN", stdin="Merci.").stdout == "Thank you."


def test_large_input_is_streamed_in_chunks(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LINES_AT_ONCE", 2)
    lines = ["Thank you.\n", "\n", "Good morning.\n", "I am hungry.\n", "The cat sleeps.\n"] * 5
    expected = ["Merci.\n", "\n", "Bonjour.\n", "J'ai faim.\n", "Le chat dort.\n"] * 5
    assert run("translate", "-s", "en", "-t", "fr", stdin="".join(lines)).stdout == "".join(expected)


def test_a_line_that_is_too_long_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LINES_AT_ONCE", 2)
    text = "Thank you.\n" * 3 + "cat " * 80
    result = run("translate", "-s", "en", "-t", "fr", stdin=text)
    assert result.exit_code == 1
    assert result.stderr.startswith("dragoman: `line 4` is over the limit max_source_length: ")


def test_what_is_not_utf_8_is_named(run: Run) -> None:
    result = run("translate", "-s", "en", "-t", "fr", stdin=b"Thank you.\n\xff\xfe\n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("dragoman: line 2 of the input must be UTF-8: ")


def test_empty_input_gives_empty_output(run: Run) -> None:
    assert run("translate", "-s", "en", "-t", "fr", stdin="").stdout == ""


def test_options_reach_the_decoder(run: Run) -> None:
    result = run(
        "translate", "-s", "en", "-t", "fr", "--strategy", "greedy", "--max-length", "3", stdin="Thank you."
    )
    assert result.exit_code == 0
    assert result.stdout != "Merci."
    assert "Merci".startswith(result.stdout)


def test_a_choice_of_checkpoints_must_be_made(run: Run, tiny_checkpoint: Path, tmp_path: Path) -> None:
    text = ["-s", "en", "-t", "fr"]
    empty = run("translate", *text, "--checkpoint", tmp_path, stdin="Thank you.")
    assert (
        empty.stderr
        == f"dragoman: {tmp_path} holds no checkpoint: name one with --checkpoint or DRAGOMAN_CHECKPOINT\n"
    )
    (tmp_path / "a").symlink_to(tiny_checkpoint)
    assert run("translate", *text, "--checkpoint", tmp_path, stdin="Thank you.").stdout == "Merci."
    (tmp_path / "b").symlink_to(tiny_checkpoint)
    several = run("translate", *text, "--checkpoint", tmp_path, stdin="Thank you.")
    assert several.stderr.startswith(
        f"dragoman: {tmp_path} holds several checkpoints ({tmp_path}/a, {tmp_path}/b): name"
    )


def test_a_reader_that_leaves_is_no_error(tiny_checkpoint: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from model.cli import main; main()",
        "translate",
        "-s",
        "en",
        "-t",
        "fr",
    ]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        result = subprocess.run(
            [*command, "--checkpoint", str(tiny_checkpoint), "--device", "cpu"],
            input=b"Thank you.\n" * 10,
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert result.stderr == b""


def test_a_full_disk_is_one_line(run: Run) -> None:
    result = run("translate", "-s", "en", "-t", "fr", "-o", "/dev/full", stdin="Thank you.")
    assert (result.exit_code, result.stderr) == (1, "dragoman: No space left on device\n")
