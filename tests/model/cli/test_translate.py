"""`dragoman translate`: lines stay lines, documents keep their shape, errors name the line."""

import dataclasses
import gzip
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tqdm import tqdm

from model.checkpoint.editing import replace_card
from model.checkpoint.folder import load_checkpoint
from model.cli import translate as module
from model.errors import DecodingError
from model.translation.result import Translation
from model.translation.translator import Translator
from tests.model.cli.conftest import Run

EN_FR = ("translate", "-s", "en", "-t", "fr")


@pytest.fixture
def translate(run: Run) -> Run:
    """From English to French."""
    return partial(run, *EN_FR)


def test_lines_from_standard_input(run: Run, translate: Run) -> None:
    result = run("translate", "--source", "en", "--target", "fr", stdin="Good morning.\nThank you.\n")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Bonjour.\nMerci.\n", "")
    assert translate(stdin="").stdout == ""


def test_white_space_and_line_ends_survive(translate: Run) -> None:
    text = "\n  Thank you.\r\n\nThe cat sleeps.  The dog sleeps.\nI am hungry."
    expected = "\n  Merci.\r\n\nLe chat dort.  Le chien dort.\nJ'ai faim."
    for mode in ([], ["--document"]):
        assert translate(*mode, "-", stdin=text).stdout_bytes == expected.encode()


@pytest.mark.parametrize("options", [[], ["--pairs"], ["--document"], ["--resume"]])
def test_the_input_is_no_output(translate: Run, tmp_path: Path, options: list[str]) -> None:
    """However it is named."""
    (tmp_path / "in").write_text("Thank you.\n" * 3000)
    (tmp_path / "link").symlink_to("in")
    (tmp_path / "hard").hardlink_to(tmp_path / "in")
    for name in ("in", "link", "hard"):
        result = translate(*options, tmp_path / "in", "-o", tmp_path / name)
        assert (result.exit_code, result.stderr) == (
            2,
            f"dragoman: --output must be another file than the input, but is {tmp_path / name}\n",
        )
    assert (tmp_path / "in").read_text() == "Thank you.\n" * 3000


@pytest.mark.parametrize(
    ("text", "translation"),
    [("Where is the station?", "Où est la gare ?"), ("Où est la gare ?", "Where is the station?")],
)
def test_what_goes_without_saying_may_be_left_out(run: Run, text: str, translation: str) -> None:
    assert run("translate", stdin=text).stdout == translation
    assert run("translate", "--source", "auto", stdin=text).stdout == translation


def test_what_is_in_the_target_language_already_is_left_alone(run: Run) -> None:
    text = "Bonjour, où est la gare ? Je voudrais un billet pour demain matin.\n"
    assert run("translate", "--source", "auto", "--target", "fr", stdin=text).stdout == text


def test_a_named_target_settles_the_source(run: Run) -> None:
    assert run("translate", "--target", "fr", stdin="Merci. Bonjour.").exit_code == 0
    assert run("translate", "--target", "fr", stdin="Thank you.").stdout == "Merci."
    assert run("translate", "--target", "EN", stdin="Merci.").stdout == "Thank you."


def test_large_input_is_streamed_in_chunks(translate: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LINES_AT_ONCE", 2)
    lines = ["Thank you.\n", "\n", "Good morning.\n", "I am hungry.\n", "The cat sleeps.\n"] * 5
    expected = ["Merci.\n", "\n", "Bonjour.\n", "J'ai faim.\n", "Le chat dort.\n"] * 5
    assert translate(stdin="".join(lines)).stdout == "".join(expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"Thank you.\n\xff\xfe\n", "line 2 of the input must be UTF-8: invalid start byte"),
        (b"%PDF-1.7\n\xe2\xe3\n", "line 2 .*: invalid continuation byte; it begins like a PDF"),
        (b"PK\x03\x04\xff", "line 1 .*: invalid start byte; it begins like a ZIP archive, such as .docx"),
    ],
)
def test_what_is_not_utf_8_is_named(translate: Run, content: bytes, message: str) -> None:
    result = translate(stdin=content)
    assert (result.exit_code, result.stdout) == (1, "")
    assert re.fullmatch(f"dragoman: {message}\n", result.stderr)


def test_options_reach_the_decoder(translate: Run) -> None:
    result = translate("--strategy", "greedy", "--max-length", "3", stdin="Thank you.")
    assert result.exit_code == 0
    assert result.stdout != "Merci."
    assert "Merci".startswith(result.stdout)


def test_translations_contain_the_terms_of_a_glossary(run: Run, tmp_path: Path) -> None:
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("Thank you\tBonjour\ncat\tchien\n")
    translate = partial(run, *EN_FR, "--glossary", glossary)
    result = translate(stdin="Thank you.\nGood morning.")
    assert (result.exit_code, result.stderr) == (0, "")
    first, second = result.stdout.split("\n")
    assert "Bonjour" in first
    assert second == "Bonjour."
    (tmp_path / "in.md").write_text("# Thank you.\n")
    assert "Bonjour" in translate(tmp_path / "in.md").stdout
    short = translate("--max-length", "1", stdin="The cat sleeps.")
    assert "terms of the glossary that a translation lacks: cat" in short.stderr
    glossary.write_bytes(b"\xff\tb")
    assert "--glossary must be UTF-8" in translate(stdin="Thank you.").stderr
    glossary.write_text("a")
    assert "`--glossary` must have two columns" in translate(stdin="Thank you.").stderr


def test_a_choice_of_checkpoints_must_be_made(
    run: Run, translate: Run, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    empty = translate("--checkpoint", tmp_path, stdin="Thank you.")
    assert empty.stderr == f"dragoman: {tmp_path} holds no checkpoint: config.json is missing\n"
    (tmp_path / "a").symlink_to(tiny_checkpoint)
    assert translate("--checkpoint", tmp_path, stdin="Thank you.").stdout == "Merci."
    (tmp_path / "b").symlink_to(tiny_checkpoint)
    several = translate("--checkpoint", tmp_path, stdin="Thank you.")
    message = f"dragoman: {tmp_path} holds several checkpoints: name one of {tmp_path}/a, {tmp_path}/b\n"
    assert several.stderr == message
    assert run("inspect", tmp_path).stderr == message


def test_several_checkpoints_for_the_service_are_too_many_here(translate: Run) -> None:
    several = translate("--checkpoint", "one, two", stdin="Thank you.")
    message = "dragoman: one checkpoint is needed, not several: name one of one, two\n"
    assert (several.exit_code, several.stderr) == (1, message)


def test_a_reader_that_leaves_is_no_error(tiny_checkpoint: Path) -> None:
    program = [sys.executable, "-c", "from model.cli import main; main()", *EN_FR]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        result = subprocess.run(
            [*program, "--checkpoint", str(tiny_checkpoint), "--device", "cpu"],
            input=b"Thank you.\n" * 10,
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
            timeout=300,
        )
    assert result.stderr == b""


def test_a_full_disk_is_one_line(translate: Run) -> None:
    result = translate("-o", "/dev/full", stdin="Thank you.")
    assert (result.exit_code, result.stderr) == (1, "dragoman: No space left on device\n")


def test_packed_files_in_and_out(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"Merci.\n\nBonjour.\n"))
    result = run("translate", "-s", "fr", "-t", "en", tmp_path / "in.gz", "-o", tmp_path / "out.gz")
    assert (result.exit_code, result.output) == (0, "")
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()) == b"Thank you.\n\nGood morning.\n"


def test_a_packed_file_that_was_cut_is_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.gz").write_bytes(gzip.compress(os.urandom(1000).hex().encode())[:-20])
    result = run("translate", "-s", "fr", "-t", "en", tmp_path / "in.gz")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "must be gzip throughout" in result.stderr


def test_a_column_becomes_pairs_to_train_on(translate: Run, tmp_path: Path) -> None:
    lines = "x\tThank you.\n\ny\t The cat sleeps. \n"
    result = translate("--column", "2", "--pairs", stdin=lines)
    assert result.stdout == "Thank you.\tMerci.\n\t\nThe cat sleeps.\tLe chat dort.\n"
    plain = translate("--column", "2", stdin=lines)
    assert plain.stdout == "Merci.\n\n Le chat dort. \n"


def test_a_tab_in_a_sentence_is_no_column(translate: Run) -> None:
    result = translate("--pairs", stdin="Thank you.\tThank you.")
    assert result.stdout.count("\t") == 1


@pytest.mark.parametrize("place", [1, 3, 31])
def test_a_line_without_the_column_is_named(translate: Run, place: int) -> None:
    text = "a\tThank you.\n" * (place - 1) + "b\n"
    result = translate("--column", "2", stdin=text)
    assert result.exit_code == 1
    assert result.stderr == f"dragoman: line {place} has 1 tab-separated columns, but needs 2\n"


def test_long_lines_are_left_empty_and_counted_when_asked_for(translate: Run) -> None:
    text = "Thank you.\n" + "cat " * 80 + "\nThank you.\n" + "dog " * 80
    result = translate("--skip-long", stdin=text)
    assert (result.exit_code, result.stdout) == (0, "Merci.\n\nMerci.\n")
    assert result.stderr == "2 lines over the limit left empty\n"


def test_what_the_length_limit_ends_is_told(translate: Run) -> None:
    lines = translate("--max-length", "2", stdin="Good morning.\n\nThe cat sleeps.\n")
    assert (lines.exit_code, lines.stderr) == (0, "2 lines ended by the length limit\n")
    document = translate("--max-length", "2", "--document", stdin="Good morning. The cat sleeps.")
    assert (document.exit_code, document.stderr) == (0, "sentences ended by the length limit\n")


def interrupted(
    run: Run, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[str | Path, ...]:
    """The arguments of a command that ended at its fourth line; two are in the part, which is marked."""
    monkeypatch.setattr(module, "_LINES_AT_ONCE", 2)
    (tmp_path / "in").write_text("Thank you.\n" * 3 + "cat " * 80)
    arguments = (*EN_FR, tmp_path / "in", "--resume", "-o", tmp_path / name)
    translate = Translator.translate

    def fail(self: Translator, texts: Sequence[str], **options: Any) -> list[Translation]:
        if any("cat cat" in text for text in texts):
            raise DecodingError("the search found no translation of a sentence")
        return translate(self, texts, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Translator, "translate", fail)
        assert run(*arguments).exit_code == 1
    assert (tmp_path / f"{name}.part").read_text() == "Merci.\n" * 2
    assert not (tmp_path / name).exists()
    return arguments


@pytest.mark.parametrize("name", ["out.tsv", "out.tsv.gz"])
def test_what_failed_goes_on_once_the_line_is_mended(
    run: Run, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = interrupted(run, tmp_path, name, monkeypatch)
    kept = tmp_path / f"{name}.part"
    kept.write_bytes(b"kept\nas it is\nLe ch")
    (tmp_path / "in").write_text("Thank you.\nThank you.\nThe cat sleeps.\n")
    assert run(*arguments).exit_code == 0
    read = gzip.decompress if name.endswith(".gz") else bytes
    assert read((tmp_path / name).read_bytes()) == b"kept\nas it is\nLe chat dort.\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", name]
    again = run(*arguments)
    assert (again.exit_code, again.stderr) == (0, f"{tmp_path / name} is complete already\n")


def test_another_command_or_checkpoint_does_not_continue(
    run: Run, tmp_path: Path, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = interrupted(run, tmp_path, "out", monkeypatch)
    other = shutil.copytree(tiny_checkpoint, tmp_path / "other")
    replace_card(other, dataclasses.replace(load_checkpoint(other).card, version="2"), {})
    for more, difference in (
        (["--beam-size", "2", "--pairs"], "--pairs False, now True; --beam-size None, now 2; repeat"),
        (["-t", "en"], "languages en-fr, now en-en; repeat"),
        (["--checkpoint", str(other)], "the checkpoint "),
    ):
        refused = run(*arguments, "--skip-long", *more)
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
        assert f"out.part: it was begun with {difference}" in refused.stderr
    assert (tmp_path / "out.part").read_text() == "Merci.\n" * 2
    assert run(*arguments, "--skip-long").exit_code == 0
    assert (tmp_path / "out").read_text() == "Merci.\n" * 3


def test_progress_counts_sentences_as_they_are_done(translate: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    update = tqdm.update

    def note(bar: object, count: int) -> None:
        counts.append(count)
        update(bar, count)

    monkeypatch.setattr(tqdm, "update", note)
    texts = "Thank you. Good morning.\n\nThe cat sleeps.\n" + "Thank you.\n" * 400
    shown = translate("--progress", stdin=texts).stderr
    assert sum(counts) == 403
    assert len(counts) > 3  # of one chunk
    assert "403 sentences [" in shown
    assert "403 lines]" in shown


@pytest.mark.parametrize(
    "wrong",
    [["--document", "--pairs"], ["--document", "--column", "1"], ["--resume"], ["--document", "--skip-long"]],
)
def test_options_that_contradict_each_other_are_a_misuse(translate: Run, wrong: list[str]) -> None:
    result = translate(*wrong, stdin="Thank you.")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)


def test_a_file_with_a_format_keeps_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.md").write_text("# Thank you.\n\n```\nThank you.\n```\n")
    arguments = (*EN_FR, tmp_path / "in.md")
    result = run(*arguments, "-o", tmp_path / "out.md", "--progress")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "sentences" in result.stderr
    assert (tmp_path / "out.md").read_text() == "# Merci.\n\n```\nThank you.\n```\n"
    assert run(*arguments).stdout == "# Merci.\n\n```\nThank you.\n```\n"
    assert run(*arguments, "--document").stdout.count("Merci.") == 2


def test_the_output_has_the_format_of_the_file(translate: Run, tmp_path: Path) -> None:
    (tmp_path / "in.md").write_text("Thank you.\n")
    result = translate(tmp_path / "in.md", "-o", tmp_path / "out.docx")
    assert (result.exit_code, "must end in .md" in result.stderr) == (2, True)
    (tmp_path / "in.docx").write_text("Thank you.\n")
    result = translate(tmp_path / "in.docx", "-o", tmp_path / "out.docx")
    assert (result.exit_code, result.stderr) == (1, "dragoman: `file` is not an archive, as its name says\n")
    result = translate("-o", tmp_path / "out.docx", stdin="Thank you.\n")
    assert (result.exit_code, "--output must be text" in result.stderr) == (2, True)
    assert not (tmp_path / "out.docx").exists()
