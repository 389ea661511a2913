"""`dragoman golden`: what it records, and what it will not."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from model.checkpoint import load_checkpoint
from model.cli.main import main
from model.golden import golden_sentences
from tests.conftest import PHRASES


@pytest.fixture
def folder(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_checkpoint, tmp_path / "copy")


def test_what_the_network_is_sure_of_is_recorded(folder: Path) -> None:
    english, french = PHRASES[0]
    result = CliRunner().invoke(main, ["golden", str(folder), "--text", "en-fr", english])
    assert result.exit_code == 0
    assert f"en-fr\t{english}\t{french}" in result.stdout
    (first, *_) = golden_sentences(load_checkpoint(folder).provenance)
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
    monkeypatch.setattr("model.gilding.is_sure", lambda _: False)
    result = CliRunner().invoke(main, ["golden", str(folder)])
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "not sure of any" in result.stderr
    assert golden_sentences(load_checkpoint(folder).provenance) == ()
