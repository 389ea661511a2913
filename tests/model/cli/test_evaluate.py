"""`dragoman evaluate`: the right figures for the right direction, from every kind of file."""

import gzip
import json
import shutil
import sys
from pathlib import Path

import pytest

from model.checkpoint.folder import load_checkpoint
from model.text.detection import has_statistics
from tests.model.cli.conftest import Run

Phrases = tuple[tuple[str, str], ...]


@pytest.fixture
def aligned(tmp_path: Path, phrases: Phrases) -> tuple[Path, Path]:
    for i, code in enumerate(("en", "fr")):
        (tmp_path / code).write_text("".join(f"{phrase[i]}\n" for phrase in phrases), encoding="utf-8")
    return tmp_path / "en", tmp_path / "fr"


def test_perfect_translations_score_100(run: Run, aligned: tuple[Path, Path], phrases: Phrases) -> None:
    english, french = aligned
    result = run(
        "evaluate", "--source-file", english, "--reference-file", french, "-s", "en", "-t", "fr", "--json"
    )
    report = json.loads(result.stdout)
    assert (report["bleu"], report["chrf"]) == pytest.approx((100, 100))
    assert (report["model"], report["pair"], report["sentences"]) == ("tiny 1", "en-fr", len(phrases))
    assert "tok:13a" in report["bleu_signature"]
    assert report["sentences_per_second"] == pytest.approx(len(phrases) / report["seconds"])


def test_the_report_for_people(run: Run, aligned: tuple[Path, Path]) -> None:
    english, french = aligned
    result = run("evaluate", "--source-file", french, "--reference-file", english)
    lines = result.stdout.splitlines()
    assert lines[0] == "tiny 1, fr-en, 6 sentences"
    assert lines[1].startswith("BLEU  100.00  nrefs:1|case:mixed")
    assert lines[2].startswith("chrF  100.00  nrefs:1|case:mixed")
    assert "sentences/s" in lines[3]


def test_columns_of_a_compressed_file_and_compressed_translations(
    run: Run, phrases: Phrases, tmp_path: Path
) -> None:
    path = tmp_path / "en-fr.tsv.gz"
    path.write_bytes(gzip.compress("".join(f"{en}\t{fr}\n" for en, fr in phrases).encode()))
    columns = ["--source-column", "2", "--reference-column", "1"]
    for name, read in (("translations", bytes), ("translations.gz", gzip.decompress)):
        options = ["-t", "en", "--limit", "2", "-o", tmp_path / name, "--json"]
        result = run("evaluate", "--source-file", path, *columns, *options)
        assert json.loads(result.stdout)["pair"] == "fr-en"
        assert read((tmp_path / name).read_bytes()) == b"Good morning.\nThank you.\n"


@pytest.mark.parametrize("which", [0, 1])
def test_translations_never_replace_what_is_read(run: Run, aligned: tuple[Path, Path], which: int) -> None:
    read = [file.read_bytes() for file in aligned]
    link = aligned[0].with_name("link")
    link.symlink_to(aligned[which])
    files = ["--source-file", aligned[0], "--reference-file", aligned[1]]
    result = run("evaluate", *files, "-s", "en", "-t", "fr", "--limit", "1", "-o", link)
    assert result.exit_code == 2
    assert f"--output must be another file than what is read, but is {link}" in result.stderr
    assert [file.read_bytes() for file in aligned] == read


def test_each_line_with_its_own_bleu(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("The cat sleeps.\tLe chat dort.\nThe dog sleeps.\tLe chien mange.\n", encoding="utf-8")
    asked = ["evaluate", "--source-file", path, "-s", "en", "-t", "fr", "--sentence-bleu", "2"]
    lines = run(*asked).stdout.splitlines()
    # Of the second, two words of three and one pair of two are right: (2/3)^(1/2) · (1/2)^(1/4) = 0.687.
    assert lines[:2] == ["The cat sleeps. → Le chat dort.  1.000", "The dog sleeps. → Le chien dort.  0.687"]
    report = json.loads(run(*asked, "--json").stdout)
    assert [line["bleu"] for line in report["lines"]] == pytest.approx([1, 0.6866], abs=1e-4)
    assert "lines" not in json.loads(run(*asked[:-2], "--json").stdout)


def test_scores_are_kept_with_the_checkpoint(
    run: Run, aligned: tuple[Path, Path], tiny_checkpoint: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(tiny_checkpoint, folder)
    before = load_checkpoint(folder)
    files = ["--source-file", aligned[0], "--reference-file", aligned[1]]
    run("evaluate", *files, "-s", "en", "-t", "fr", "--checkpoint", folder, "--record", "phrases")
    after = load_checkpoint(folder)
    evaluations = after.provenance["evaluations"]
    assert isinstance(evaluations, dict)
    assert evaluations["phrases en-fr"]["bleu"] == pytest.approx(100)
    assert evaluations["phrases en-fr"]["sentences"] == 6
    assert after.checksum == before.checksum
    assert {**after.provenance, "evaluations": None} == {**before.provenance, "evaluations": None}


@pytest.fixture
def corpus(tmp_path: Path, phrases: Phrases) -> Path:
    path = tmp_path / "en-fr.tsv"
    path.write_text("".join(f"{en}\t{fr}\n" for en, fr in phrases), encoding="utf-8")
    return path


def test_both_directions_of_a_corpus(run: Run, corpus: Path) -> None:
    asked = ["evaluate", "--corpus", corpus, "--source", "fr", "--target", "en", "--both"]
    reports = json.loads(run(*asked, "--json").stdout)
    assert [(report["pair"], report["bleu"]) for report in reports] == [
        ("fr-en", pytest.approx(100)),
        ("en-fr", pytest.approx(100)),
    ]
    assert [line for line in run(*asked).stdout.splitlines() if "sentences" in line][::2] == [
        "tiny 1, fr-en, 6 sentences",
        "tiny 1, en-fr, 6 sentences",
    ]


def test_a_checkpoint_against_itself(run: Run, corpus: Path, tiny_checkpoint: Path) -> None:
    asked = ["evaluate", "--corpus", corpus, "-s", "en", "-t", "fr", "--against", tiny_checkpoint]
    report = json.loads(run(*asked, "--resamples", "50", "--json").stdout)
    assert report["against"]["model"] == "tiny 1"
    assert report["confidence"]["bleu"]["p_value"] == 1
    assert report["confidence"]["chrf"]["mean"] == pytest.approx(100)
    assert "bs:50|seed:12345" in report["confidence"]["bleu"]["signature"]
    lines = run(*asked).stdout.splitlines()
    assert lines[2].startswith("chrF  100.00  (mean 100.00 ± 0.00)  nrefs:1|bs:1000|seed:12345")
    assert lines[4] == f"against tiny 1 ({tiny_checkpoint})"
    assert lines[6] == "chrF  100.00  (mean 100.00 ± 0.00)  difference +0.00, p = 1.0000"
    assert lines[7].startswith("speed ")


def test_files_of_translations_need_no_checkpoint(
    run: Run, aligned: tuple[Path, Path], tmp_path: Path, phrases: Phrases
) -> None:
    worse = tmp_path / "worse.fr"
    worse.write_text("".join(f"autre chose {number}\n" for number in range(len(phrases))))
    files = [
        "--reference-file",
        aligned[1],
        "--translations-file",
        aligned[1],
        "--checkpoint",
        tmp_path / "none",
    ]
    report = json.loads(run("evaluate", *files, "--against-file", worse, "-t", "fr", "--json").stdout)
    assert (report["model"], report["pair"], report["bleu"]) == ("fr", "und-fr", pytest.approx(100))
    assert (report["against"]["model"], report["against"]["chrf"]["score"] < 20) == ("worse.fr", True)
    assert report["confidence"]["chrf"]["p_value"] < 0.05
    assert "seconds" not in report
    text = run("evaluate", *files, "-t", "fr", "--confidence").stdout
    assert text.splitlines()[0] == "fr, und-fr, 6 sentences"
    assert "speed" not in text


def test_a_reference_more_is_a_chance_more(run: Run, aligned: tuple[Path, Path], tmp_path: Path) -> None:
    worse = tmp_path / "worse.fr"
    worse.write_text("autre chose\n" * 6)
    asked = ["evaluate", "--source-file", aligned[0], "-s", "en", "-t", "fr", "--json"]
    report = json.loads(run(*asked, "--reference-file", worse, "--reference-file", aligned[1]).stdout)
    assert report["bleu"] == pytest.approx(100)
    assert report["bleu_signature"].startswith("nrefs:2|")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--both", "-o", "x"], "--both translates two directions"),
        (["--against", "a", "--against-file", "b"], "compare with one of them"),
        (["--translations-file", "x", "--record", "name"], "nothing is translated"),
        (["--reference-column", "two"], "'two' is not a column (2), a list (2,3) or an open range (2-)"),
    ],
)
def test_options_that_cannot_be_meant_together(
    run: Run, corpus: Path, arguments: list[str], message: str
) -> None:
    result = run("evaluate", "--corpus", corpus, "-s", "en", "-t", "fr", *arguments)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert message in result.stderr


def test_a_seed_that_is_none_is_refused_before_anything_is_loaded(
    run: Run, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "today")
    asked = ["evaluate", "--corpus", corpus, "-s", "en", "-t", "fr", "--checkpoint", tmp_path / "none"]
    result = run(*asked, "--confidence")
    assert result.exit_code == 2
    assert result.stderr.startswith("dragoman: `SACREBLEU_SEED` must be a whole number")
    assert "none does not exist" in run(*asked).stderr


def test_translations_are_as_many_as_the_sentences_within_the_limit(
    run: Run, aligned: tuple[Path, Path], tmp_path: Path
) -> None:
    few = tmp_path / "few.fr"
    few.write_text("Bonjour.\n")
    texts = ["evaluate", "--reference-file", aligned[1], "-t", "fr", "--translations-file"]
    result = run(*texts, few)
    assert (result.exit_code, "1 translations of 6 sentences" in result.stderr) == (1, True)
    assert run(*texts, aligned[1], "--limit", 2).exit_code == 0
    assert run(*texts, aligned[1], "--limit", 2, "--against-file", aligned[1]).exit_code == 0


def test_without_statistics_languages_are_not_checked(
    run: Run, aligned: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lingua", None)
    has_statistics.cache_clear()
    source, reference = aligned
    arguments = ("evaluate", "--source-file", source, "-s", "en", "-t", "fr", "--reference-file")
    same = run(*arguments, reference), run(*arguments, source)
    has_statistics.cache_clear()
    assert [(each.exit_code, "look like" in each.stderr) for each in same] == [(0, False)] * 2


def test_references_in_another_language_are_noticed(run: Run, aligned: tuple[Path, Path]) -> None:
    source, reference = aligned
    arguments = ("evaluate", "--source-file", source, "-s", "en", "-t", "fr", "--reference-file")
    assert "warning" not in run(*arguments, reference).stderr
    told, warning = run(*arguments, source), "warning: the references look like en, but the target is fr\n"
    assert (told.exit_code, told.stderr) == (0, warning)
