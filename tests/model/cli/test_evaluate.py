"""`dragoman evaluate`: the right figures for the right direction, from every kind of file."""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result

from model.checkpoint.folder import load_checkpoint
from model.cli.evaluate import ReferenceColumns, TextOptions
from model.errors import CorpusError
from model.evaluation import EvaluationText
from model.text.detection import has_statistics
from tests.conftest import PHRASES
from tests.model.cli.conftest import Run


@pytest.fixture
def aligned(tmp_path: Path) -> tuple[Path, Path]:
    for i, code in enumerate(("en", "fr")):
        (tmp_path / code).write_text("".join(f"{phrase[i]}\n" for phrase in PHRASES), encoding="utf-8")
    return tmp_path / "en", tmp_path / "fr"


@pytest.fixture
def evaluate(run: Run, aligned: tuple[Path, Path]) -> Run:
    """From English to French, by default of PHRASES."""

    def call(*options: str | Path, source: Path = aligned[0], reference: Path = aligned[1]) -> Result:
        files = ("--source-file", source, "--reference-file", reference)
        return run("evaluate", *files, "-s", "en", "-t", "fr", *options)

    return call


def test_perfect_translations_score_100(evaluate: Run) -> None:
    report = json.loads(evaluate("--json").stdout)
    assert (report["bleu"], report["chrf"]) == pytest.approx((100, 100))
    assert (report["model"], report["pair"], report["sentences"]) == ("tiny 1", "en-fr", len(PHRASES))
    assert "tok:13a" in report["bleu_signature"]
    assert report["sentences_per_second"] == pytest.approx(len(PHRASES) / report["seconds"])
    lines = evaluate().stdout.splitlines()
    assert lines[0] == "tiny 1, en-fr, 6 sentences"
    assert lines[1].startswith("BLEU  100.00  nrefs:1|case:mixed")
    assert lines[2].startswith("chrF  100.00  nrefs:1|case:mixed")
    assert "sentences/s" in lines[3]


def test_columns_of_a_compressed_file_and_compressed_translations(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "en-fr.tsv.gz"
    path.write_bytes(gzip.compress("".join(f"{en}\t{fr}\n" for en, fr in PHRASES).encode()))
    columns = ["--source-column", "2", "--reference-column", "1"]
    for name, read in (("translations", bytes), ("translations.gz", gzip.decompress)):
        options = ["-t", "en", "--limit", "2", "-o", tmp_path / name, "--json"]
        result = run("evaluate", "--source-file", path, *columns, *options)
        assert json.loads(result.stdout)["pair"] == "fr-en"
        assert read((tmp_path / name).read_bytes()) == b"Good morning.\nThank you.\n"


@pytest.mark.parametrize("which", [0, 1])
def test_translations_never_replace_what_is_read(
    evaluate: Run, aligned: tuple[Path, Path], which: int
) -> None:
    read = [file.read_bytes() for file in aligned]
    link = aligned[0].with_name("link")
    link.symlink_to(aligned[which])
    result = evaluate("--limit", "1", "-o", link)
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


def test_scores_are_kept_with_the_checkpoint(evaluate: Run, folder: Path) -> None:
    before = load_checkpoint(folder)
    evaluate("--checkpoint", folder, "--record", "phrases")
    after = load_checkpoint(folder)
    evaluations = after.provenance["evaluations"]
    assert isinstance(evaluations, dict)
    assert evaluations["phrases en-fr"]["bleu"] == pytest.approx(100)
    assert evaluations["phrases en-fr"]["sentences"] == 6
    assert after.checksum == before.checksum
    assert {**after.provenance, "evaluations": None} == {**before.provenance, "evaluations": None}


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
    run: Run, aligned: tuple[Path, Path], tmp_path: Path
) -> None:
    worse = tmp_path / "worse.fr"
    worse.write_text("".join(f"autre chose {number}\n" for number in range(len(PHRASES))))
    files = ("--reference-file", aligned[1], "--translations-file", aligned[1], "-t", "fr")
    nowhere = ("evaluate", *files, "--checkpoint", tmp_path / "none")
    report = json.loads(run(*nowhere, "--against-file", worse, "--json").stdout)
    assert (report["model"], report["pair"], report["bleu"]) == ("fr", "und-fr", pytest.approx(100))
    assert (report["against"]["model"], report["against"]["chrf"]["score"] < 20) == ("worse.fr", True)
    assert report["confidence"]["chrf"]["p_value"] < 0.05
    assert "seconds" not in report
    text = run(*nowhere, "--confidence").stdout
    assert text.splitlines()[0] == "fr, und-fr, 6 sentences"
    assert "speed" not in text


def test_a_reference_more_is_a_chance_more(evaluate: Run, aligned: tuple[Path, Path], tmp_path: Path) -> None:
    worse = tmp_path / "worse.fr"
    worse.write_text("autre chose\n" * 6)
    report = json.loads(evaluate("--reference-file", aligned[1], "--json", reference=worse).stdout)
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
    evaluate: Run, aligned: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lingua", None)
    has_statistics.cache_clear()
    same = evaluate(), evaluate(reference=aligned[0])
    has_statistics.cache_clear()
    assert [(each.exit_code, "look like" in each.stderr) for each in same] == [(0, False)] * 2


def test_references_in_another_language_are_noticed(evaluate: Run, aligned: tuple[Path, Path]) -> None:
    assert "warning" not in evaluate().stderr
    told = evaluate(reference=aligned[0])
    warning = "warning: the references look like en, but the target is fr\n"
    assert (told.exit_code, told.stderr) == (0, warning)


ENGLISH = ["Where is the station?", "I have not seen him for a long time."]
FRENCH = ["Où est la gare ?", "Je ne l'ai pas vu depuis longtemps."]


def read(
    codes: tuple[str | None, str | None] = ("en", "fr"), *, needs_sources: bool = True, **given: Any
) -> EvaluationText:
    names = ("source_file", "corpus", "source_column", "reference_columns", "limit")
    nothing: dict[str, Any] = {**dict.fromkeys(names), "reference_files": ()}
    return TextOptions(**nothing | given).read(*codes, needs_sources=needs_sources)


@pytest.fixture
def sentences(tmp_path: Path) -> str:
    path = tmp_path / "pairs.tsv.gz"
    lines = (f"{english}\t{french}\n" for english, french in zip(ENGLISH, FRENCH, strict=True))
    path.write_bytes(gzip.compress("".join(lines).encode()))
    return str(path)


def written(folder: Path, name: str, *lines: str) -> str:
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(folder / name)


def test_a_corpus_is_read_in_the_direction_that_is_asked_for(sentences: str) -> None:
    assert read(("en", "fr"), corpus=sentences) == EvaluationText(ENGLISH, [FRENCH])
    assert read(("fr", "en"), corpus=sentences) == EvaluationText(FRENCH, [ENGLISH])


def test_columns_that_are_named_are_believed_and_the_reference_is_beside_the_source(sentences: str) -> None:
    columns = {"source_column": 1, "reference_columns": ReferenceColumns((2,))}
    assert read(("fr", "en"), corpus=sentences, **columns) == EvaluationText(ENGLISH, [FRENCH])
    assert read(("en", "fr"), corpus=sentences, source_column=2) == EvaluationText(FRENCH, [ENGLISH])
    assert read(source_file=sentences, source_column=2) == EvaluationText(FRENCH, [ENGLISH])
    assert read(source_file=sentences) == EvaluationText(ENGLISH, [FRENCH])


def test_a_corpus_of_objects_goes_by_its_codes(tmp_path: Path) -> None:
    path = written(tmp_path, "pairs.jsonl", '{"fr": "Oui.", "en": "Yes."}')
    assert read(("en", "fr"), corpus=path) == EvaluationText(["Yes."], [["Oui."]])


def test_several_columns_of_references_some_of_them_short(tmp_path: Path) -> None:
    path = written(tmp_path, "pairs.tsv", "Hi.\tSalut.\tBonjour.", "Yes.\tOui.", "")
    every = ReferenceColumns((2,), is_open=True)
    text = read(source_file=path, reference_columns=every)
    assert text == EvaluationText(["Hi.", "Yes.", ""], [["Salut.", "Oui.", ""], ["Bonjour.", None, None]])
    assert read(source_file=path, reference_columns=every, limit=1).references == [["Salut."], ["Bonjour."]]


def test_a_line_without_its_first_reference_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "pairs.tsv", "Hi.\tSalut.", "Yes.")
    with pytest.raises(CorpusError, match=r"pairs\.tsv:2: 1 tab-separated columns, at least 2 needed"):
        read(source_file=path, reference_columns=ReferenceColumns((2,), is_open=True))


def test_several_files_of_references(tmp_path: Path) -> None:
    source, one, other = (written(tmp_path, name, f"{name}1", f"{name}2") for name in ("s", "a", "b"))
    text = read(source_file=source, reference_files=(one, other))
    assert text == EvaluationText(["s1", "s2"], [["a1", "a2"], ["b1", "b2"]])
    assert text.reversed() == EvaluationText(["a1", "a2"], [["s1", "s2"]])
    short = written(tmp_path, "short", "a1")
    with pytest.raises(CorpusError, match="not aligned"):
        read(source_file=source, reference_files=(one, short))


def test_references_alone_where_nothing_is_translated(tmp_path: Path) -> None:
    one, other = (written(tmp_path, name, f"{name}1", f"{name}2") for name in ("a", "b"))
    text = read(reference_files=(one, other), needs_sources=False)
    assert text == EvaluationText(["", ""], [["a1", "a2"], ["b1", "b2"]])
    assert read(reference_files=(one,), needs_sources=False).references == [["a1", "a2"]]


@pytest.mark.parametrize(
    ("given", "codes", "message"),
    [
        ({}, ("en", "fr"), "give --corpus, or --source-file"),
        ({"reference_files": ("r",)}, ("en", "fr"), "give --corpus, or --source-file"),
        ({"corpus": "c"}, ("en", None), "--corpus needs --source and --target"),
        ({"corpus": "c"}, ("auto", "fr"), "--corpus needs --source and --target"),
        ({"corpus": "c", "source_file": "s"}, ("en", "fr"), "--corpus holds both sides"),
    ],
)
def test_what_names_no_text_is_refused(
    given: dict[str, Any], codes: tuple[str | None, str | None], message: str
) -> None:
    with pytest.raises(click.UsageError, match=message):
        read(codes, **given)


def test_references_that_are_the_sources_themselves_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "both", "one\teins")
    with pytest.raises(click.UsageError, match="--reference-column names only the column"):
        read(source_file=path, source_column=2, reference_columns=ReferenceColumns((2,), is_open=True))


def test_reference_columns_are_parsed_and_leave_out_the_source() -> None:
    for text, columns in (("2", [2]), ("2,4", [2, 4]), ("2-", [2, 3, 4, 5]), ("1-", [2, 3, 4, 5])):
        assert ReferenceColumns.parse(text).among(5, leaving_out=1) == columns
    for text in ("1,3-", "0", "b", ""):
        with pytest.raises(click.BadParameter, match="is not a column"):
            ReferenceColumns.parse(text)
