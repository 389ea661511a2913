"""Texts that grow: sentences in order, words whole, gaps as they will be."""

from collections.abc import Sequence

import pytest

from app.backend import LoadedModel
from app.translation.catalogue import Catalogue
from app.translation.markup_syntax import HTML
from app.translation.partial_results import Drafts
from app.translation.reader import Reader
from app.translation.request import Order
from app.translation.text_job import Item
from model.request import Hypothesis
from tests.app.double import DoubleBackend


@pytest.fixture
def model(backend: DoubleBackend) -> LoadedModel:
    return backend.models()[0]


def items_of(model: LoadedModel, *texts: str, is_html: bool = False) -> list[Item]:
    order = Order(
        texts=texts,
        fields=tuple(f"q[{i}]" for i in range(len(texts))),
        source="en",
        target="fr",
        deadline=0.0,
        markup=HTML if is_html else None,
    )
    return Reader(Catalogue([model])).read(order)


def ids(model: LoadedModel, words: str) -> tuple[int, ...]:
    return tuple(model.tokenizer.encode(words)[:-1])


def hypotheses(model: LoadedModel, words: str) -> Sequence[Hypothesis]:
    return [Hypothesis(ids(model, words), -1.0, -1.0, (), finished=True)]


def drafts_of(model: LoadedModel, *texts: str, is_html: bool = False) -> Drafts:
    drafts = Drafts()
    drafts.begin(items_of(model, *texts, is_html=is_html))
    return drafts


def test_a_sentence_behind_waits_for_the_one_before(model: LoadedModel) -> None:
    drafts = drafts_of(model, "  First one.\n\nSecond one.")
    assert drafts.take() == []
    drafts.finished(1, hypotheses(model, "second done."))
    assert drafts.news.is_set()
    assert drafts.take() == []
    drafts.grew(0, ids(model, "first do"))
    assert drafts.take() == [(0, "  FIRST")]
    assert drafts.take() == []
    drafts.grew(0, ids(model, "first do it"))
    drafts.grew(0, ids(model, "first do it now"))
    assert drafts.take() == [(0, "  FIRST DO IT")]
    drafts.finished(0, hypotheses(model, "first do it now."))
    assert drafts.take() == [(0, "  FIRST DO IT NOW.\n\nSECOND DONE.")]


def test_texts_grow_each_for_itself(model: LoadedModel) -> None:
    drafts = drafts_of(model, "One.", "", "42", "Two. Three.")
    drafts.grew(2, ids(model, "three x"))
    drafts.grew(1, ids(model, "two x"))
    drafts.grew(0, ids(model, "one x"))
    assert drafts.take() == [(0, "ONE"), (3, "TWO")]
    drafts.finished(1, hypotheses(model, "two."))
    assert drafts.take() == [(3, "TWO. THREE")]


def test_markup_is_cut_behind_what_is_certain(model: LoadedModel) -> None:
    drafts = drafts_of(model, "<p>One.</p> <b>42</b><i>Two. Three.</i>", is_html=True)
    drafts.grew(0, ids(model, "a & b"))
    assert drafts.take() == [(0, "<p>A &amp;")]
    drafts.finished(0, hypotheses(model, "a & b"))
    assert drafts.take() == [(0, "<p>A &amp; B")]
    drafts.grew(1, ids(model, "two x"))
    assert drafts.take() == [(0, "<p>A &amp; B</p> <b>42</b><i>TWO")]
    drafts.finished(1, hypotheses(model, "two."))
    drafts.finished(2, hypotheses(model, "three."))
    assert drafts.take() == [(0, "<p>A &amp; B</p> <b>42</b><i>TWO. THREE.")]


def test_nothing_shows_that_the_spelling_of_an_unchanged_text_would_take_back(model: LoadedModel) -> None:
    drafts = drafts_of(model, "<p>&#79;NE. Two.</p>", is_html=True)
    drafts.finished(0, hypotheses(model, "one."))
    assert drafts.take() == []
    drafts.grew(1, ids(model, "two x"))
    assert drafts.take() == [(0, "<p>ONE. TWO")]


def test_a_sentence_with_an_address_waits_until_that_is_right(model: LoadedModel) -> None:
    drafts = drafts_of(model, "Write to max@example.org today.", "Write today.")
    drafts.grew(0, ids(model, "schreib an mx@example.org x"))
    drafts.grew(1, ids(model, "schreib heute x"))
    assert drafts.take() == [(1, "SCHREIB HEUTE")]
    drafts.finished(0, hypotheses(model, "schreib an mx@example.org."))
    assert drafts.take() == [(0, "SCHREIB AN max@example.org.")]


def test_an_address_counts_as_the_network_reads_it(model: LoadedModel) -> None:
    drafts = drafts_of(model, "Write to max@exam\u00adple.org today.")
    drafts.grew(0, ids(model, "schreib an max@exam ple.org x"))
    assert drafts.take() == []
    drafts.finished(0, hypotheses(model, "schreib an max@exam ple.org."))
    assert drafts.take() == [(0, "SCHREIB AN max@example.org.")]


@pytest.mark.parametrize("is_html", [False, True])
def test_the_last_draft_is_the_answer_but_for_tags_behind_it(model: LoadedModel, is_html: bool) -> None:
    (item,) = items_of(model, "Write to max@example.org & me. <b>See www.example.org.</b>", is_html=is_html)
    results = [hypotheses(model, words) for words in ("an mx@example.org & x", "siehe ww.example.org.", "x")]
    results = results[: len(item.requests)]
    drafts = Drafts()
    drafts.begin([item])
    for place, result in enumerate(results):
        drafts.finished(place, result)
    ((_, text),) = drafts.take()
    answer = item.go_on(item.sentences(results)).answer().text
    assert answer == text + ("</b>" if is_html else "")
    assert "max@example.org" in text


def test_a_search_that_found_nothing_shows_nothing(model: LoadedModel) -> None:
    drafts = drafts_of(model, "One.")
    drafts.finished(0, [])
    assert not drafts.news.is_set()
    assert drafts.take() == []
