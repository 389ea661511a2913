"""`checkpoints/recipe/without_overlap.py`: which lines it drops."""

import gzip
from pathlib import Path

import pytest
from click.testing import CliRunner

from checkpoints.recipe.without_overlap import main, sentence_key, without_overlap


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Of course!", "of course"),
        ("C'est à moi.", "C’est à moi !"),
        ("Good  luck", "GOODLUCK"),
        ("Straße", "STRASSE"),
        ("ﬁne", "fine"),
        ("你好！", "你好"),
        ("12:30", "1230"),
    ],
)
def test_case_punctuation_and_spaces_do_not_count(one: str, other: str) -> None:
    assert sentence_key(one) == sentence_key(other) != ""


@pytest.mark.parametrize(("one", "other"), [("peche", "pêche"), ("one", "ones"), ("不", "是")])
def test_letters_and_marks_count(one: str, other: str) -> None:
    assert sentence_key(one) != sentence_key(other)


def test_a_line_is_dropped_for_any_of_its_cells() -> None:
    lines = ["Yes\tOui", "No\tNon", "Perhaps\tPeut-être", "?\t!"]
    assert list(without_overlap(lines, {"no", "peutêtre", ""} - {""})) == ["Yes\tOui", "?\t!"]


def test_a_file_loses_what_stands_in_others_but_not_its_header(tmp_path: Path) -> None:
    file, plain, packed = tmp_path / "list.tsv", tmp_path / "a.tsv", tmp_path / "b.tsv.gz"
    file.write_text("en\tfr\nYes\tOui\nNo\tNon\nGo!\tVa !\n", encoding="utf-8")
    plain.write_text("yes.\tJa.\n", encoding="utf-8")
    packed.write_bytes(gzip.compress("En\tVA\n…\t!\n".encode()))
    options = ["--text", str(plain), "--text", str(packed), "--header", "-o", str(file)]
    result = CliRunner().invoke(main, [str(file), *options])
    assert (result.exit_code, result.output) == (0, f"{file}: 2 of 4 lines, 2 dropped\n")
    assert file.read_text(encoding="utf-8") == "en\tfr\nNo\tNon\n"
