"""The report of runs in every state: finished, resumed, without validation, interrupted, under way."""

import json
import logging
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from model.training.report.page import report_if_possible, write_report
from model.training.report.translations import KeptTranslations, Translations
from model.training.run import Run, open_run
from model.training.run_folder.folder import RunFolder
from model.training.validation.validator import TranslatedText
from tests.model.training.tiny_runs import tiny_run, tiny_values

HOSTILE = "<script>alert('x')</script> & \"quotes\""


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
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("run")
    config = tiny_run(folder, validation={"heat_maps": 1}, run={"plots": True})
    (folder / "valid.tsv").write_text("1 dog.\t1 chien.\n2 cats.\t2 chats.\n")  # short, for small pictures
    made = open_run(config)
    made.run()
    return made


def page_of(run: Run, **options: Any) -> Page:
    return Page(write_report(run.folder, **options))


def test_a_finished_run_has_everything(run: Run) -> None:
    report = run.folder.report
    page = Page(report / "index.html")
    for name in ("curves/loss.png", "by-length/bleu.png", "attention/en-fr-1/cross-1.png"):
        assert (report / name).read_bytes().startswith(b"\x89PNG")
    for expected in ("ended by max_steps", "8 (", "en-fr", "fr-en", "tok:13a", "Worst", "native float32"):
        assert expected in page.text
    assert sum(tag == "img" for tag, _ in page.tags) > 10


def test_attention_is_drawn_up_to_the_last_position_that_was_learned(tmp_path: Path) -> None:
    limits = {"max_source_length": 64, "max_target_length": 64}
    network, cleaning = {"positions": "learned", "max_positions": 64}, {"max_length_tokens": 64}
    run = open_run(tiny_run(tmp_path, network=network, cleaning=cleaning, card=limits))
    run.run()
    text = TranslatedText("en", "fr", ("good day",), ("bonjour",), ("bon" * 50,))
    KeptTranslations(run.folder.translations).keep(Translations(8, (text,)), is_best=True)
    assert any(page_of(run, attention=1).folder.rglob("cross-1.png"))


def test_the_page_needs_nothing_from_elsewhere(run: Run) -> None:
    page = page_of(run, attention=1)
    assert "script" not in {tag for tag, _ in page.tags}
    for reference in page.references():
        assert reference.startswith("#") or (page.folder / reference).is_file()


def test_text_never_becomes_markup(run: Run) -> None:
    kept = KeptTranslations(run.folder.translations)
    before = kept.read("best")
    assert before is not None
    text = TranslatedText("en", "fr", (HOSTILE,), (HOSTILE,), (HOSTILE,))
    kept.keep(Translations(before.step, (text,)), is_best=True)
    page = page_of(run, attention=1)
    assert "script" not in {tag for tag, _ in page.tags}
    assert HOSTILE in page.text
    kept.keep(before, is_best=True)


def test_a_report_replaces_the_one_before(run: Run) -> None:
    assert any(page_of(run, attention=1).folder.rglob("cross-1.png"))
    assert not any(page_of(run, attention=0).folder.rglob("cross-1.png"))


def test_a_run_under_way_says_so(run: Run) -> None:
    run.folder.provenance.rename(run.folder.root / "aside")
    try:
        assert "under way" in page_of(run, attention=0).text
    finally:
        (run.folder.root / "aside").rename(run.folder.provenance)


def test_a_run_from_before_translations_were_kept(run: Run) -> None:
    run.folder.translations.rename(run.folder.root / "aside")
    try:
        page = page_of(run, attention=1)
    finally:
        (run.folder.root / "aside").rename(run.folder.translations)
    assert "No translations have been kept." in page.text


def test_a_resumed_run_continues_its_report(copied_run: Path) -> None:
    longer = open_run(tiny_run(copied_run, run={"max_steps": 12, "plots": True}), resume=True)
    longer.run()
    page = Page(longer.folder.report / "index.html")
    assert "12 (" in page.text
    assert "first, step 4" in page.text
    assert "last, step 12" in page.text


def test_a_run_without_held_out_text(tmp_path: Path) -> None:
    values = tiny_values(tmp_path, run={"plots": True})
    run = open_run(type(tiny_run(tmp_path)).from_dict({**values, "validation_corpora": []}))
    run.run()
    assert "Nothing has been validated." in Page(run.folder.report / "index.html").text


def test_a_run_that_has_only_begun(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.config.write_text(json.dumps(tiny_run(tmp_path).to_dict()))
    assert "Nothing has been measured yet." in Page(write_report(folder)).text


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
