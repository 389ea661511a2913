"""The share of words that come out right."""

import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from click.testing import CliRunner, Result

from benchmarks.quality.words import Trial, drawn, listed_rows, main, share_right, tried, typed, write_missed
from model.checkpoint.folder import load_checkpoint
from model.translation.translator import Translator

ROWS = [["dog", "chien"], ["Hello!", "Bonjour !"], ["hello", "salut"], ["the old house", "la vieille maison"]]


class Known:
    """Knows a few words, and gives back what it does not know."""

    def translate(self, texts: list[str], *, source: str, target: str) -> list[SimpleNamespace]:
        assert (source, target) == ("en", "fr")
        known = {"dog": "Chien.", "Hello!": "Salut !"}
        return [SimpleNamespace(text=known.get(text, text)) for text in texts]


PAIR = ("en", "fr")


def share(rows: Sequence[Sequence[str]], listed: Sequence[Sequence[str]]) -> float | None:
    return share_right(tried(cast("Translator", Known()), typed(rows, PAIR, PAIR), listed, PAIR, PAIR))


def call(tmp_path: Path, checkpoint: Path, text: str, *options: str) -> Result:
    file = tmp_path / "mine.tsv"
    file.write_text(text, encoding="utf-8")
    return CliRunner().invoke(main, [str(checkpoint), "--list", str(file), *options])


def test_any_translation_of_the_same_text_is_right_and_a_copy_is_not() -> None:
    assert share(ROWS, ROWS) == 2 / 4


def test_a_translation_that_stands_in_the_list_is_right_also_if_it_was_not_drawn() -> None:
    assert share(ROWS[:2], ROWS) == 1
    assert share(ROWS[:2], ROWS[:2]) == 1 / 2


def test_what_is_in_small_letters_is_tried_with_a_first_capital_too() -> None:
    assert typed(ROWS, PAIR, PAIR, capitalised=True) == [
        ("Dog", "Chien"),
        ("Hello", "Salut"),
        ("The old house", "La vieille maison"),
    ]
    assert typed(ROWS, ("fr", "en"), PAIR)[0] == ("chien", "dog")


def test_in_a_script_without_capitals_none_is_tried_with_one() -> None:
    rows = [*([["狗", "dog"]] * 20), ["wifi", "wifi"]]
    languages = ("zh", "en")
    assert typed(rows, languages, languages, capitalised=True) == []
    assert share_right([]) is None


def test_what_came_out_wrong_is_written_as_it_was_typed_and_once(tmp_path: Path) -> None:
    wrong = Trial("Dog", "Chien", is_right=False)
    write_missed(tmp_path / "missed.tsv", [wrong, Trial("cat", "chat", is_right=True), wrong])
    assert (tmp_path / "missed.tsv").read_text(encoding="utf-8") == "Dog\tChien\n"


def test_entries_of_too_many_words_are_not_drawn_and_a_seed_draws_the_same_ones() -> None:
    some = drawn(ROWS, 2, 2, 1)
    assert len(some) == 2
    assert some == drawn(ROWS, 2, 2, 1)
    assert {row[0] for row in drawn(ROWS, 9, 2, 1)} == {"dog", "Hello!", "hello"}


def test_a_report_says_what_was_counted_and_holds_the_shares(tmp_path: Path, tiny_checkpoint: Path) -> None:
    text = "Thank you.\tMerci.\nGood morning.\tBonjour.\nWhere is the station?\tOù est la gare ?\n"
    done = call(
        tmp_path,
        tiny_checkpoint,
        text,
        "--languages",
        "en,fr",
        "--output",
        str(tmp_path / "results"),
        "--missed",
        str(tmp_path / "missed"),
    )
    assert done.exit_code == 0, done.output + str(done.exception)
    assert (tmp_path / "results" / "words.md").read_text() in done.stdout
    report = json.loads((tmp_path / "results" / "words.json").read_text())
    checkpoint = load_checkpoint(tiny_checkpoint)
    precision = report["settings"].pop("precision")
    assert precision == Translator.load(tiny_checkpoint).precision
    assert report["settings"] == {
        "checkpoint": {"name": "tiny", "version": "1", "checksum": checkpoint.checksum},
        "list": "mine.tsv",
        "languages": ["en", "fr"],
        "entries": 2,
        "most_words": 2,
        "seed": 1,
    }
    assert report["results"] == [
        {"kind": "words", "source": source, "target": target, "right": 1.0, "capitalised": None}
        for source, target in checkpoint.card.pairs
    ]
    assert report["tables"][0]["rows"][-1] == {
        "direction": "mean",
        "right": "100.0%",
        "with a capital": "–",
    }
    assert [file.read_text() for file in sorted((tmp_path / "missed").glob("*-*.tsv"))] == ["", ""]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", (), r"--list must be a file with at least 1 entry, but is \S+mine\.tsv with none"),
        (
            "dog\tchien\ncat\n",
            ("--languages", "en,fr"),
            r"line 2 of --list \S+mine\.tsv must have at least 2 columns, .* --languages en,fr, but has 1 ",
        ),
        (
            "the old house\tla vieille maison\nevery day of it\tchaque jour\n",
            ("--languages", "en,fr"),
            r"--most-words must be at least 3, .* but is 2 ",
        ),
        (
            "dog\tHund\n",
            ("--languages", "en,de"),
            r"--languages must have both .* \(en→fr, fr→en\), but is en,de ",
        ),
    ],
)
def test_what_cannot_be_counted_is_refused_by_the_name_of_its_option(
    tmp_path: Path, tiny_checkpoint: Path, text: str, options: Sequence[str], message: str
) -> None:
    refused = call(tmp_path, tiny_checkpoint, text, *options)
    assert refused.exit_code == 2
    assert re.search(message, refused.stderr)


def test_a_list_may_be_packed_and_hold_any_character_but_line_feeds(tmp_path: Path) -> None:
    file = tmp_path / "list.gz"
    file.write_bytes(gzip.compress("dog\tchien\u2028\ncat\tchat\n".encode()))
    assert listed_rows(file, ["en", "fr"]) == [["dog", "chien\u2028"], ["cat", "chat"]]


def test_a_checkpoint_that_cannot_be_read_is_told_in_a_line(tmp_path: Path) -> None:
    result = call(tmp_path, tmp_path, "dog\tchien\n", "--languages", "en,fr")
    assert (result.exit_code, isinstance(result.exception, SystemExit)) == (1, True)
    assert result.stderr.startswith("Error: ")


def test_the_default_list_has_a_column_for_each_default_language() -> None:
    defaults = {option.name: option.default for option in main.params}
    assert listed_rows(Path(str(defaults["file"])), str(defaults["languages"]).split(","))
