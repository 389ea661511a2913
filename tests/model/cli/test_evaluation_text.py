"""Texts and their references from every kind of file."""

import gzip
from pathlib import Path
from typing import Any

import click
import pytest

from model.cli.evaluate import ReferenceColumns, TextOptions
from model.errors import CorpusError
from model.evaluation.held_out import EvaluationText

ENGLISH = ["Where is the station?", "I have not seen him for a long time."]
FRENCH = ["Où est la gare ?", "Je ne l'ai pas vu depuis longtemps."]


def read(
    codes: tuple[str | None, str | None] = ("en", "fr"), *, needs_sources: bool = True, **given: Any
) -> EvaluationText:
    nothing: dict[str, Any] = {
        "source_file": None,
        "corpus": None,
        "reference_files": (),
        "source_column": None,
        "reference_columns": None,
        "limit": None,
    }
    return TextOptions(**nothing | given).read(*codes, needs_sources=needs_sources)


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    path = tmp_path / "pairs.tsv.gz"
    lines = (f"{english}\t{french}\n" for english, french in zip(ENGLISH, FRENCH, strict=True))
    path.write_bytes(gzip.compress("".join(lines).encode()))
    return str(path)


def written(folder: Path, name: str, *lines: str) -> str:
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(folder / name)


def test_a_corpus_is_read_in_the_direction_that_is_asked_for(corpus: str) -> None:
    assert read(("en", "fr"), corpus=corpus) == EvaluationText(ENGLISH, [FRENCH])
    assert read(("fr", "en"), corpus=corpus) == EvaluationText(FRENCH, [ENGLISH])


def test_columns_that_are_named_are_believed(corpus: str) -> None:
    columns = {"source_column": 1, "reference_columns": ReferenceColumns((2,))}
    assert read(("fr", "en"), corpus=corpus, **columns) == EvaluationText(ENGLISH, [FRENCH])
    assert read(("en", "fr"), corpus=corpus, source_column=2) == EvaluationText(FRENCH, [ENGLISH])


def test_the_other_direction_of_a_text() -> None:
    text = EvaluationText(["a"], [["b"], ["c"]])
    assert text.reversed() == EvaluationText(["b"], [["a"]])


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


@pytest.mark.parametrize(
    ("text", "columns"),
    [("2", [2]), ("2,4", [2, 4]), ("2-", [2, 3, 4, 5]), ("1-", [2, 3, 4, 5]), ("1,3-", None), ("0", None),
     ("b", None), ("", None)],
)  # fmt: skip
def test_reference_columns_are_parsed_and_leave_out_the_source(text: str, columns: list[int] | None) -> None:
    if columns is None:
        with pytest.raises(click.BadParameter, match="is not a column"):
            ReferenceColumns.parse(None, None, text)
    else:
        parsed = ReferenceColumns.parse(None, None, text)
        assert parsed is not None
        assert parsed.among(5, leaving_out=1) == columns


def test_the_default_reference_is_the_column_beside_the_source(corpus: str) -> None:
    assert read(source_file=corpus, source_column=2) == EvaluationText(FRENCH, [ENGLISH])
    assert read(source_file=corpus) == EvaluationText(ENGLISH, [FRENCH])
