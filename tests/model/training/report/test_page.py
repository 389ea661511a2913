"""The report of runs in every state: finished, resumed, without validation, interrupted, under way."""

import json
import logging
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from model.training.optimisation.step import Update
from model.training.report.page import (
    RunRecord,
    remarkable,
    report_if_possible,
    score_by_length,
    sentence_histories,
    summarise,
    write_report,
)
from model.training.run import Run, open_run
from model.training.run_folder.folder import RunFolder, RunLog, Translations
from model.training.validation import TranslatedText
from tests.model.training.tiny_runs import tiny_run

HOSTILE = "<script>alert('x')</script> & \"quotes\""
REFERENCES = ("the cat sleeps", "a dog barks", "birds sing here")
SOURCES = ("un", "deux", "trois")


class Page(HTMLParser):
    """What a page refers to, and its text."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.folder = file.parent
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def references(self) -> Iterator[str]:
        for _, attributes in self.tags:
            for name in ("src", "href"):
                if name in attributes:
                    yield attributes[name] or ""


pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(scope="module")
def folder(finished_run: Run, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A copy of a finished run."""
    copy = tmp_path_factory.mktemp("copy") / "run"
    return RunFolder(shutil.copytree(finished_run.folder.root, copy))


def page_of(folder: RunFolder, **options: Any) -> Page:
    return Page(write_report(folder, **options))


def test_the_page_of_a_finished_run_has_everything_and_needs_nothing_from_elsewhere(
    folder: RunFolder,
) -> None:
    page = page_of(folder, attention=1)
    for expected in ("ended by max_steps", "8 (", "en-fr", "fr-en", "tok:13a", "Worst", "native float32"):
        assert expected in page.text
    assert sum(tag == "img" for tag, _ in page.tags) > 10
    references = set(page.references())
    assert {"curves/loss.png", "attention/en-fr-1/cross-1.png"} <= references
    for reference in references:
        assert reference.startswith("#") or (page.folder / reference).is_file()


def test_attention_is_drawn_up_to_the_last_position_that_was_learned(tmp_path: Path) -> None:
    limits = {"max_source_length": 64, "max_target_length": 64}
    network, cleaning = {"positions": "learned", "max_positions": 64}, {"max_length_tokens": 64}
    config = tiny_run(tmp_path, network=network, cleaning=cleaning, card=limits, run={"max_steps": 1})
    run = open_run(config)
    run.run()
    text = TranslatedText("en", "fr", ("good day",), ("bonjour",), ("bon" * 50,))
    RunLog(run.folder).keep(Translations(1, (text,)), is_best=True)
    assert any(page_of(run.folder, attention=1).folder.rglob("cross-1.png"))


def test_text_never_becomes_markup(folder: RunFolder) -> None:
    kept = RunLog(folder)
    before = kept.translations("best")
    assert before is not None
    text = TranslatedText("en", "fr", (HOSTILE,), (HOSTILE,), (HOSTILE,))
    kept.keep(Translations(before.step, (text,)), is_best=True)
    page = page_of(folder, attention=1)
    assert "script" not in {tag for tag, _ in page.tags}
    assert HOSTILE in page.text
    kept.keep(before, is_best=True)


def test_a_report_replaces_the_one_before(folder: RunFolder) -> None:
    assert any(page_of(folder, attention=1).folder.rglob("cross-1.png"))
    assert not any(page_of(folder, attention=0).folder.rglob("cross-1.png"))


def test_a_run_from_before_translations_were_kept(folder: RunFolder) -> None:
    aside = folder.translations.rename(folder.root / "aside")
    try:
        assert "No translations have been kept." in page_of(folder, attention=1).text
    finally:
        aside.rename(folder.translations)


def test_a_resumed_run_continues_its_report(copied_run: Path) -> None:
    under_way: list[Page] = []

    def hook(step: int, _: Update) -> None:
        if step == 11:
            under_way.append(page_of(RunFolder(copied_run / "run")))

    sections = {"run": {"max_steps": 12, "plots": True}, "validation": {"heat_maps": 1}}
    longer = open_run(tiny_run(copied_run, **sections), resume=True, hook=hook)
    longer.run()
    assert "under way" in under_way[0].text
    page = Page(longer.folder.report / "index.html")
    assert "12 (" in page.text
    assert "first, step 4" in page.text
    assert "last, step 12" in page.text
    assert "attention/en-fr-1/cross-1.png" in page.references()


def test_a_run_that_has_only_begun(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.config.write_text(json.dumps(tiny_run(tmp_path).to_dict()))
    assert "Nothing has been measured yet." in page_of(folder).text


def test_a_report_that_cannot_be_written_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither a folder without a log nor any error of the drawing library ends the process."""

    def draw(folder: RunFolder) -> Path:
        raise RuntimeError("a broken font")

    with caplog.at_level(logging.ERROR):
        report_if_possible(RunFolder(tmp_path))
    assert "no report: " in caplog.text
    monkeypatch.setattr("model.training.report.page.write_report", draw)
    report_if_possible(RunFolder(tmp_path))
    assert "a broken font" in caplog.text
    assert caplog.text.count(f"dragoman report {tmp_path}") == 2


UPDATE = {
    "kind": "update",
    "step": 20,
    "epoch": 0.5,
    "tokens": 1200,
    "seconds": 90.0,
    "tokens_per_second": 50.0,
    "padding_share": 0.1,
    "mfu": 0.5,
}
PROVENANCE: dict[str, Any] = {
    "steps": 20,
    "data": {
        "train": [{"languages": ["en", "fr"], "bidirectional": True, "files": [{"name": "a/b.tsv"}]}],
        "validation": [],
        "pairs_kept": 1000,
        "pairs_dropped": {"empty": 2, "too long": 3},
    },
}


def facts(events: list[dict[str, Any]], **values: Any) -> dict[str, str]:
    given = {"provenance": None, "has_ended": False, "first": None, "best": None}
    record = RunRecord(
        name="run", config={"network": {"preset": "tiny"}}, events=events, checkpoint=None, **given | values
    )
    return dict(summarise(record))


def test_the_facts_of_a_run_that_has_only_begun() -> None:
    assert facts([]) == {"State": "under way, or stopped without a word", "Network": "tiny"}


def test_progress_and_speed() -> None:
    shown = facts([UPDATE, {**UPDATE, "step": 40, "tokens_per_second": 70.0, "seconds": 7380.0}])
    assert shown["Steps"] == "40 (0.50 epochs)"
    assert shown["Tokens seen"].startswith("1,200 ")
    assert shown["Time of training"] == "2 h 3 min"
    assert facts([{**UPDATE, "seconds": 7190.0}])["Time of training"] == "2 h 0 min"
    assert shown["Throughput"] == "60 tokens/s (median)"
    assert shown["Model FLOPs utilisation"] == "50.0% (median)"


@pytest.mark.parametrize(("end", "state"), [({"ended_by": "max_steps"}, "ended by max_steps"), ({}, "ended")])
def test_an_end_and_where_the_data_came_from(end: dict[str, str], state: str) -> None:
    shown = facts([UPDATE], provenance=PROVENANCE | end, has_ended=True)
    assert shown["State"] == state
    assert shown["Time of training"] == "1.5 min"
    assert shown["Trained on"] == "en↔fr a/b.tsv"
    assert "Validated on" not in shown
    assert shown["Pairs"] == "1,000 kept, 5 dropped in cleaning"


def translated(*translations: str, sources: tuple[str, ...] = SOURCES) -> TranslatedText:
    return TranslatedText("fr", "en", sources, REFERENCES, translations)


BEFORE = translated("the cat eats", "a dog barks", "nothing")
AFTER = translated("the cat sleeps", "a frog", "birds sing")


def test_each_sentence_is_scored_now_and_before() -> None:
    first, second, _ = sentence_histories(BEFORE, AFTER)
    assert (first.before, first.after) == ("the cat eats", "the cat sleeps")
    assert first.chrf == pytest.approx(100)
    assert 0 < first.gain < 100
    assert second.gain < 0


def test_the_worst_and_those_that_changed_most() -> None:
    found = remarkable(sentence_histories(BEFORE, AFTER), 2)
    assert {kind: [each.source for each in histories] for kind, histories in found.items()} == {
        "Worst": ["deux", "trois"],
        "Most improved": ["un", "trois"],
        "Worsened": ["deux"],
    }


def test_sentences_are_recognised_not_counted() -> None:
    earlier = translated("the cat eats", "a dog barks", "nothing", sources=("un", "other", "trois"))
    histories = sentence_histories(earlier, AFTER)
    assert [each.before for each in histories] == ["the cat eats", None, "nothing"]


SHORT, LONG = "one two three", " ".join(map(str, range(60)))


def text(*rows: tuple[str, str, str], target: str = "fr") -> TranslatedText:
    sources, references, translations = zip(*rows, strict=True)
    return TranslatedText("en", target, sources, references, translations)


def test_sentences_are_scored_with_those_of_their_length() -> None:
    right, wrong = ("a b c d e f", "a b c d e f"), ("a b c d e f", "u v w x y z")
    short, middle, long = score_by_length(text((SHORT, *right), (LONG, *wrong), (SHORT + " four", *right)))
    assert [str(bucket) for bucket in (short, middle, long)] == ["1–3", "4–5", "over 50"]
    assert [bucket.count for bucket in (short, middle, long)] == [1, 1, 1]
    assert [short.scores.bleu, long.scores.bleu] == pytest.approx([100, 0], abs=1)


def test_characters_are_words_where_there_are_no_spaces() -> None:
    (bucket,) = score_by_length(text(("我们今天去学校", "we go", "we go")))
    assert str(bucket) == "6–8"
