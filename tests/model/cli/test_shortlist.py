"""`dragoman shortlist`: a checkpoint gets one, translates by it if asked to, and as before if not."""

import shutil
from pathlib import Path

import pytest

from model.checkpoint.folder import load_checkpoint
from tests.conftest import PHRASES
from tests.model.cli.conftest import Run


@pytest.fixture
def folder(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_checkpoint, tmp_path / "copy")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{english}\t{french}\n" for english, french in PHRASES))
    return path


def translation(run: Run, folder: Path, *options: str) -> str:
    result = run("translate", "--checkpoint", folder, "-s", "en", "-t", "fr", *options, stdin="Thank you.")
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_it_is_written_with_its_origin(run: Run, folder: Path, corpus: Path) -> None:
    result = run("shortlist", folder, "--corpus", "en-fr", corpus, "--per-token", 7, "--always", 5)
    assert result.exit_code == 0, result.stderr
    assert "12 pairs" in result.stdout
    checkpoint = load_checkpoint(folder)
    assert checkpoint.shortlist is not None
    assert checkpoint.provenance["shortlist"] == {
        "corpora": ["en-fr pairs.tsv"],
        "pairs": 12,
        "per_token": 7,
        "always": 5,
    }


def test_it_narrows_a_translation_only_where_that_is_asked_for(run: Run, folder: Path, corpus: Path) -> None:
    whole = translation(run, folder)
    assert whole == "Merci."
    corpus.write_text("Thank you.\tBonjour.\n")  # it will not find "Merci" among these
    run("shortlist", folder, "--corpus", "en-fr", corpus)
    assert translation(run, folder) == whole
    assert "Merci" not in translation(run, folder, "--shortlist")


def test_the_environment_can_ask_for_it(
    run: Run, folder: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("shortlist", folder, "--corpus", "en-fr", corpus)
    for value, option in (("on", "--no-shortlist"), ("off", "--shortlist")):
        monkeypatch.setenv("DRAGOMAN_SHORTLIST", value)
        assert translation(run, folder) == translation(run, folder, option) == "Merci."


def test_the_environment_can_leave_it_to_the_checkpoint(
    run: Run, folder: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.write_text("Thank you.\tBonjour.\n")
    run("shortlist", folder, "--corpus", "en-fr", corpus)
    monkeypatch.setenv("DRAGOMAN_SHORTLIST", "auto")
    assert translation(run, folder) == "Merci."


def test_without_one_it_cannot_be_asked_for(run: Run, tiny_checkpoint: Path) -> None:
    result = run("translate", "-s", "en", "-t", "fr", "--shortlist", stdin="Thank you.")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert f"`shortlist` must be off, as checkpoint {tiny_checkpoint} has no shortlist" in result.stderr


def test_text_is_needed_for_every_direction(run: Run, folder: Path, corpus: Path) -> None:
    result = run("shortlist", folder, "--corpus", "en-de", corpus)
    assert result.exit_code == 2
    assert "--corpus must name languages of en-fr, fr-en, but names en-de instead" in result.stderr
    assert load_checkpoint(folder).shortlist is None


def test_text_that_does_not_fit_is_not_enough(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "long.tsv").write_text("cat " * 2000 + "\tchat\n")
    result = run("shortlist", folder, "--corpus", "en-fr", tmp_path / "long.tsv")
    assert (result.exit_code, result.stderr) == (1, "dragoman: no pair of the corpora fits the network\n")
    assert load_checkpoint(folder).shortlist is None


def test_only_so_many_lines_are_read(run: Run, folder: Path, corpus: Path) -> None:
    assert "4 pairs" in run("shortlist", folder, "--corpus", "en-fr", corpus, "--limit", 2).stdout
