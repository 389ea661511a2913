"""`dragoman golden` and `dragoman shortlist`: what they add to a checkpoint, and what they refuse."""

from pathlib import Path

import pytest

from model.checkpoint.folder import load_checkpoint
from model.checkpoint.self_test import self_test_sentences
from tests.conftest import PHRASES
from tests.model.cli.conftest import Run


def test_what_the_network_is_sure_of_is_recorded(run: Run, folder: Path) -> None:
    english, french = PHRASES[0]
    result = run("golden", folder, "--text", "en-fr", english)
    assert result.exit_code == 0
    assert f"en-fr\t{english}\t{french}" in result.stdout
    (first, *_) = self_test_sentences(load_checkpoint(folder).provenance)
    assert (first.source, first.translation) == (english, french)


@pytest.mark.parametrize("options", [[], ["--references", "{file}"]])
def test_without_a_sure_translation_nothing_is_recorded(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    if not options:
        monkeypatch.setattr("model.checkpoint.self_test.is_sure", lambda _: False)
    file = references(tmp_path, "en\tfr", f"{PHRASES[0][0]}\tSalut.")
    result = run("golden", folder, *(option.format(file=file) for option in options))
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert f"not sure of {'a right translation of any' if options else 'any'} of these" in result.stderr
    assert self_test_sentences(load_checkpoint(folder).provenance) == ()


def test_only_translations_that_equal_a_reference_are_recorded(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    (english, french), _, (third, right) = PHRASES[:3]
    rows = ["en\tfr", f"{english}\t{right}", f"{english}\t{french}", f"{third}\t{right}"]
    assert recorded(run, folder, references(tmp_path, *rows)) == {
        ("en", english, french),
        ("en", third, right),
        ("fr", french, english),
        ("fr", right, third),
    }


def test_a_reference_may_lack_a_language(run: Run, folder: Path, tmp_path: Path) -> None:
    english, french = PHRASES[0]
    rows = ["de\tfr\ten", f"Guten Morgen.\t\t{english}", f"\t{french}\t{english}"]
    assert recorded(run, folder, references(tmp_path, *rows)) == {
        ("en", english, french),
        ("fr", french, english),
    }


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([], ["--text", "en-de", "a"], "--text must name one of en-fr, fr-en, but names en-de instead"),
        ([], ["--text", "en-fr", " "], "--text en-fr must have a text that is not blank"),
        (["en\tfr"], ["--text", "en-fr", "a"], "either --text or --references"),
        (["Good morning.\tBonjour."], [], "the first line must be two or more language codes"),
        (["en"], [], "the first line must be two or more language codes"),
        (["en\ten"], [], "the first line must be two or more language codes"),
        (["en\tfr", "a\tb", "a\tb\tc"], [], ":3: must have at most 2 columns"),
    ],
)
def test_wrong_usage_is_one_line(
    run: Run, folder: Path, tmp_path: Path, rows: list[str], options: list[str], message: str
) -> None:
    files = ["--references", references(tmp_path, *rows)] if rows else []
    result = run("golden", folder, *options, *files)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert message in result.stderr


def references(folder: Path, *rows: str) -> Path:
    file = folder / "references.tsv"
    file.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return file


def recorded(run: Run, folder: Path, file: Path) -> set[tuple[str, str, str]]:
    result = run("golden", folder, "--references", file)
    assert result.exit_code == 0, result.stderr
    found = self_test_sentences(load_checkpoint(folder).provenance)
    return {(each.source_language, each.source, each.translation) for each in found}


def translation(run: Run, folder: Path, *options: str) -> str:
    result = run("translate", "--checkpoint", folder, "-s", "en", "-t", "fr", *options, stdin="Thank you.")
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_a_shortlist_is_written_with_its_origin(run: Run, folder: Path, corpus: Path) -> None:
    result = run("shortlist", folder, "--corpus", "en-fr", corpus, "--per-token", 7, "--always", 5)
    assert result.exit_code == 0, result.stderr
    assert "12 pairs" in result.stdout
    checkpoint = load_checkpoint(folder)
    assert checkpoint.shortlist is not None
    assert checkpoint.provenance["shortlist"] == {
        "corpora": ["en-fr en-fr.tsv"],
        "pairs": 12,
        "per_token": 7,
        "always": 5,
    }


def test_a_shortlist_narrows_a_translation_only_if_asked_for(run: Run, folder: Path, corpus: Path) -> None:
    whole = translation(run, folder)
    assert whole == "Merci."
    corpus.write_text("Thank you.\tBonjour.\n")  # it will not find "Merci" among these
    run("shortlist", folder, "--corpus", "en-fr", corpus)
    assert translation(run, folder) == whole
    assert "Merci" not in translation(run, folder, "--shortlist")


def test_the_environment_can_ask_for_a_shortlist_or_leave_it_to_the_checkpoint(
    run: Run, folder: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.write_text("Thank you.\tBonjour.\n")
    run("shortlist", folder, "--corpus", "en-fr", corpus)
    for value, options, is_used in (
        ("auto", (), False),
        ("off", (), False),
        ("off", ("--shortlist",), True),
        ("on", (), True),
        ("on", ("--no-shortlist",), False),
    ):
        monkeypatch.setenv("DRAGOMAN_SHORTLIST", value)
        assert ("Merci" not in translation(run, folder, *options)) == is_used


def test_a_missing_shortlist_cannot_be_asked_for(run: Run, tiny_checkpoint: Path) -> None:
    result = run("translate", "-s", "en", "-t", "fr", "--shortlist", stdin="Thank you.")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert f"`shortlist` must be off, as checkpoint {tiny_checkpoint} has no shortlist" in result.stderr


def test_a_shortlist_needs_text_for_every_direction(run: Run, folder: Path, corpus: Path) -> None:
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
