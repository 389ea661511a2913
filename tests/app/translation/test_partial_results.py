"""Partial results: sentences in order, whole words, final gaps."""

import pytest

from app.backend import Model
from app.translation.catalogue import Catalogue
from app.translation.partial_results import PartialResults
from app.translation.reader import Reader
from app.translation.requests import Text
from model.text.formats.markup_syntax import HTML
from tests.app.double import DoubleBackend, hypotheses, request_of


@pytest.fixture
def model(backend: DoubleBackend) -> Model:
    return backend.models()[0]


def texts_of(model: Model, *texts: str, is_html: bool = False) -> list[Text]:
    request = request_of(*texts, markup=HTML if is_html else None)
    reader = Reader(Catalogue([model]))
    planned = reader.plan(request)
    reader.read([job for text in planned for job in text.jobs if job.remaining])
    return planned


def ids(model: Model, words: str) -> tuple[int, ...]:
    return tuple(model.tokenizer.encode(words)[:-1])


def partial_results_of(model: Model, *texts: str, is_html: bool = False) -> PartialResults:
    partial_results = PartialResults()
    partial_results.begin(texts_of(model, *texts, is_html=is_html))
    return partial_results


def test_sentences_are_shown_in_order(model: Model) -> None:
    partial_results = partial_results_of(model, "  First one.\n\nSecond one.")
    assert partial_results.take() == []
    partial_results.finished(1, hypotheses(model.tokenizer, "second done."))
    assert partial_results.changed.is_set()
    assert partial_results.take() == []
    partial_results.grew(0, ids(model, "first do"))
    assert partial_results.take() == [(0, "  FIRST")]
    assert partial_results.take() == []
    partial_results.grew(0, ids(model, "first do it"))
    partial_results.grew(0, ids(model, "first do it now"))
    assert partial_results.take() == [(0, "  FIRST DO IT")]
    partial_results.finished(0, hypotheses(model.tokenizer, "first do it now."))
    assert partial_results.take() == [(0, "  FIRST DO IT NOW.\n\nSECOND DONE.")]


def test_texts_grow_independently(model: Model) -> None:
    partial_results = partial_results_of(model, "One.", "", "42", "Two. Three.")
    partial_results.grew(2, ids(model, "three x"))
    partial_results.grew(1, ids(model, "two x"))
    partial_results.grew(0, ids(model, "one x"))
    assert partial_results.take() == [(0, "ONE"), (3, "TWO")]
    partial_results.finished(1, hypotheses(model.tokenizer, "two."))
    assert partial_results.take() == [(3, "TWO. THREE")]


def test_markup_ends_after_the_certain_text(model: Model) -> None:
    partial_results = partial_results_of(model, "<p>One.</p> <p>42</p><div>Two. Three.</div>", is_html=True)
    partial_results.grew(0, ids(model, "a & b"))
    assert partial_results.take() == [(0, "<p>A &amp;")]
    partial_results.finished(0, hypotheses(model.tokenizer, "a & b"))
    assert partial_results.take() == [(0, "<p>A &amp; B")]
    partial_results.grew(1, ids(model, "two x"))
    assert partial_results.take() == [(0, "<p>A &amp; B</p> <p>42</p><div>TWO")]
    partial_results.finished(1, hypotheses(model.tokenizer, "two."))
    partial_results.finished(2, hypotheses(model.tokenizer, "three."))
    assert partial_results.take() == [(0, "<p>A &amp; B</p> <p>42</p><div>TWO. THREE.")]


def test_nothing_is_shown_that_an_unchanged_text_would_revoke(model: Model) -> None:
    partial_results = partial_results_of(model, "<p>&#79;NE. Two.</p>", is_html=True)
    partial_results.finished(0, hypotheses(model.tokenizer, "one."))
    assert partial_results.take() == []
    partial_results.grew(1, ids(model, "two x"))
    assert partial_results.take() == [(0, "<p>ONE. TWO")]


def test_a_sentence_with_a_string_to_keep_is_shown_at_its_end(model: Model) -> None:
    partial_results = partial_results_of(model, "Write to max@example.org today.", "Write today.")
    partial_results.grew(0, ids(model, "schreib an 217 x"))
    partial_results.grew(1, ids(model, "schreib heute x"))
    assert partial_results.take() == [(1, "SCHREIB HEUTE")]
    partial_results.finished(0, hypotheses(model.tokenizer, "schreib an 217."))
    assert partial_results.take() == [(0, "SCHREIB AN max@example.org.")]


@pytest.mark.parametrize("is_html", [False, True])
def test_the_last_partial_result_is_the_answer_without_its_closing_tags(model: Model, is_html: bool) -> None:
    (text,) = texts_of(model, "Write to max@example.org & me. <b>See www.example.org.</b>", is_html=is_html)
    results = [hypotheses(model.tokenizer, words) for words in ("an 217 & x", "siehe 217.", "x")]
    (job,) = text.jobs
    results = results[: len(job.requests)]
    partial_results = PartialResults()
    partial_results.begin([text])
    for place, result in enumerate(results):
        partial_results.finished(place, result)
    ((_, beginning),) = partial_results.take()
    job.advance(job.sentences(results))
    assert text.answer().text == beginning + ("</b>" if is_html else "")
    assert "max@example.org" in beginning


def test_a_search_without_hypotheses_shows_nothing(model: Model) -> None:
    partial_results = partial_results_of(model, "One.")
    partial_results.finished(0, [])
    assert not partial_results.changed.is_set()
    assert partial_results.take() == []
