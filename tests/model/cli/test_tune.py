"""`dragoman tune`: it tries searches on text, and keeps the best in the checkpoint."""

import dataclasses
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from model.checkpoint.editing import replace_card
from model.checkpoint.folder import load_checkpoint
from model.cli.main import main
from model.decode_request import DecodeOptions
from tests.conftest import PHRASES


def tune(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["tune", *map(str, arguments), "--device", "cpu"])


def test_the_best_search_becomes_the_default_of_a_sound_checkpoint(folder: Path, corpus: Path) -> None:
    card = load_checkpoint(folder).card
    replace_card(folder, dataclasses.replace(card, decoding=DecodeOptions(strategy="greedy")), {})
    before = load_checkpoint(folder)
    result = tune(folder, "--corpus", "en-fr", corpus, "--length-penalty", "0.5", "--beam-size", "3")
    assert result.exit_code == 0, result.output
    header, trial, *_ = result.stdout.splitlines()
    assert header.split("\t") == ["beam", "length penalty", "BLEU", "chrF", "en-fr", "fr-en"]
    assert trial.split("\t")[:2] == ["3", "0.5"]
    assert trial.endswith("← chosen")
    after = load_checkpoint(folder)
    chosen = DecodeOptions.from_dict({"strategy": "beam", "beam_size": 3, "length_penalty": 0.5})
    assert after.card.decoding == chosen
    assert after.checksum != before.checksum
    assert after.config == before.config
    tuning = after.provenance["tuning"]
    assert isinstance(tuning, dict)
    assert (tuning["text"], tuning["metric"], len(tuning["tried"])) == (["en-fr.tsv"], "bleu", 1)
    kept = {key: value for key, value in after.provenance.items() if key not in ("tuning", "files")}
    assert kept == {key: value for key, value in before.provenance.items() if key != "files"}


def test_of_equal_searches_the_present_one_stays(folder: Path, corpus: Path) -> None:
    present = load_checkpoint(folder).card.decoding
    result = tune(
        folder, "--corpus", "fr-en", corpus, *("--length-penalty", "0.9"), *("--length-penalty", "1.0")
    )
    first = result.stdout.splitlines()[1].split("\t")
    assert first[:2] == [str(present.beam_size), "1"]
    assert first[-1] == "← chosen"
    assert load_checkpoint(folder).card.decoding == present


def test_a_dry_run_changes_nothing(folder: Path, corpus: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result = tune(folder, "--corpus", "en-fr", corpus, "--limit", "2", "--dry-run")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 1 + 6 + 1
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_two_files_are_one_direction(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("".join(f"{fr}\n" for _, fr in PHRASES))
    (tmp_path / "r").write_text("".join(f"{en}\n" for en, _ in PHRASES))
    files: list[str | Path] = ["--source-file", tmp_path / "s", "--reference-file", tmp_path / "r"]
    result = tune(folder, *files, "-s", "fr", "-t", "en", "--length-penalty", "1", "--metric", "chrf")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0].split("\t") == ["beam", "length penalty", "BLEU", "chrF"]


def test_files_of_the_same_languages_are_one_text(folder: Path, corpus: Path, tmp_path: Path) -> None:
    """The second file is all wrong, so that half of the text scores nothing."""
    wrong = tmp_path / "wrong.tsv"
    wrong.write_text("".join(f"{en}\tautre chose\n" for en, _ in PHRASES))
    search: list[str | Path] = ["--corpus", "en-fr", corpus, "--length-penalty", "1", "--dry-run"]
    alone, both = tune(folder, *search), tune(folder, "--corpus", "en-fr", wrong, *search)
    scores = [float(result.stdout.splitlines()[1].split("\t")[3]) for result in (alone, both)]
    assert scores[0] == 100
    assert scores[1] < 90


@pytest.mark.parametrize(("named", "is_turned"), [("en-fr", True), ("fr-en", True), ("fr-en", False)])
def test_columns_are_told_apart_by_language(
    folder: Path, tmp_path: Path, named: str, is_turned: bool
) -> None:
    (tmp_path / "v.tsv").write_text(
        "".join(f"{fr}\t{en}\n" if is_turned else f"{en}\t{fr}\n" for en, fr in PHRASES)
    )
    result = tune(folder, "--corpus", named, tmp_path / "v.tsv", "--length-penalty", "1", "--dry-run")
    header, trial, *_ = (line.split("\t") for line in result.stdout.splitlines())
    scores = dict(zip(header, trial, strict=False))
    assert (scores["en-fr"], scores["fr-en"]) == ("100.0 100.0", "100.0 100.0")


@pytest.mark.parametrize(
    ("wrong", "messages"),
    [
        ([], ["--source-file", "--corpus"]),
        (["--corpus", "en-de", "{corpus}"], ["--corpus", "names en-de instead"]),
        (["--corpus", "en-fr", "{corpus}", "-s", "fr"], ["--corpus", "--source"]),
        (["--corpus", "en-fr", "{corpus}", "-t", "fr"], ["--corpus", "--target"]),
        (["--corpus", "en-fr", "{corpus}", "--reference-file", "x"], ["--corpus", "--reference-file"]),
    ],
)
def test_what_cannot_be_meant_is_a_misuse(
    folder: Path, corpus: Path, wrong: list[str], messages: list[str]
) -> None:
    result = tune(folder, *(part.format(corpus=corpus) for part in wrong))
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert all(message in result.stderr for message in messages)
