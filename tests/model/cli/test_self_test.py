"""`dragoman golden`: what it records, and what it will not."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from model.checkpoint.folder import load_checkpoint
from model.checkpoint.self_test import self_test_sentences
from model.cli.main import main
from tests.conftest import PHRASES


@pytest.fixture
def folder(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_checkpoint, tmp_path / "copy")


def test_what_the_network_is_sure_of_is_recorded(folder: Path) -> None:
    english, french = PHRASES[0]
    result = CliRunner().invoke(main, ["golden", str(folder), "--text", "en-fr", english])
    assert result.exit_code == 0
    assert f"en-fr\t{english}\t{french}" in result.stdout
    (first, *_) = self_test_sentences(load_checkpoint(folder).provenance)
    assert (first.source, first.translation) == (english, french)


def test_a_pair_that_it_does_not_translate_is_a_misuse(folder: Path) -> None:
    result = CliRunner().invoke(main, ["golden", str(folder), "--text", "en-de", "a"])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "--text must name one of en-fr, fr-en, but names en-de instead" in result.stderr


def test_a_blank_text_is_a_misuse(folder: Path) -> None:
    result = CliRunner().invoke(main, ["golden", str(folder), "--text", "en-fr", " "])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "--text en-fr must have a text that is not blank" in result.stderr


def test_without_a_sure_translation_nothing_is_recorded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.checkpoint.self_test.is_sure", lambda _: False)
    result = CliRunner().invoke(main, ["golden", str(folder)])
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "not sure of any" in result.stderr
    assert self_test_sentences(load_checkpoint(folder).provenance) == ()


def test_only_translations_that_equal_a_reference_are_recorded(folder: Path, tmp_path: Path) -> None:
    (english, french), _, (third, right) = PHRASES[:3]
    rows = ["en\tfr", f"{english}\t{right}", f"{english}\t{french}", f"{third}\t{right}"]
    assert recorded(folder, references(tmp_path, *rows)) == {
        ("en", english, french),
        ("en", third, right),
        ("fr", french, english),
        ("fr", right, third),
    }


def test_a_reference_may_lack_a_language(folder: Path, tmp_path: Path) -> None:
    english, french = PHRASES[0]
    rows = ["de\tfr\ten", f"Guten Morgen.\t\t{english}", f"\t{french}\t{english}"]
    assert recorded(folder, references(tmp_path, *rows)) == {("en", english, french), ("fr", french, english)}


def test_without_a_right_translation_nothing_is_recorded(folder: Path, tmp_path: Path) -> None:
    file = references(tmp_path, "en\tfr", f"{PHRASES[0][0]}\tSalut.")
    result = CliRunner().invoke(main, ["golden", str(folder), "--references", str(file)])
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "not sure of a right translation of any" in result.stderr


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["Good morning.\tBonjour."], "the first line must be two or more language codes"),
        (["en"], "the first line must be two or more language codes"),
        (["en\ten"], "the first line must be two or more language codes"),
        (["en\tfr", "a\tb", "a\tb\tc"], ":3: must have at most 2 columns"),
    ],
)
def test_a_malformed_file_of_references_is_a_misuse(
    folder: Path, tmp_path: Path, rows: list[str], message: str
) -> None:
    file = references(tmp_path, *rows)
    result = CliRunner().invoke(main, ["golden", str(folder), "--references", str(file)])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert message in result.stderr


def test_texts_and_references_together_are_a_misuse(folder: Path, tmp_path: Path) -> None:
    options = ["--text", "en-fr", "a", "--references", str(references(tmp_path, "en\tfr"))]
    result = CliRunner().invoke(main, ["golden", str(folder), *options])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "either --text or --references" in result.stderr


def references(folder: Path, *rows: str) -> Path:
    file = folder / "references.tsv"
    file.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return file


def recorded(folder: Path, file: Path) -> set[tuple[str, str, str]]:
    result = CliRunner().invoke(main, ["golden", str(folder), "--references", str(file)])
    assert result.exit_code == 0, result.stderr
    found = self_test_sentences(load_checkpoint(folder).provenance)
    return {(each.source_language, each.source, each.translation) for each in found}
