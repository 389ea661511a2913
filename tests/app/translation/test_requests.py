"""A request's texts on their way: the sentences of each hop, their translations, and the answer."""

from functools import partial

import pytest

from app.translation.catalogue import Catalogue
from app.translation.reader import Reader
from app.translation.requests import Text
from model.decode_request import Hypothesis
from model.errors import DecodingError
from model.text.detection import Detection
from model.text.formats.markup_syntax import HTML
from tests.app.double import DoubleBackend, hypotheses, request_of

BACKEND = DoubleBackend(("de-en", (("de", "en"),)), ("en-fr", (("en", "fr"),)))


def text_of(text: str, *, source: str | None = "de", is_html: bool = False) -> Text:
    request = request_of(text, source=source, markup=HTML if is_html else None)
    (planned,) = Reader(Catalogue(BACKEND.models())).plan(request)
    return planned


found = partial(hypotheses, BACKEND.tokenizer)


def advance(text: Text, *results: list[Hypothesis]) -> list[str]:
    """Takes a text one hop further; returns the sentences of that hop."""
    remaining, sources = iter(results), list[str]()
    for job in text.jobs:
        if job.remaining:
            job.read()
            sources += [BACKEND.tokenizer.decode(each.source_ids[:-1]) for each in job.requests]
            job.advance(job.sentences([next(remaining) for _ in job.requests]))
    assert next(remaining, None) is None
    return sources


def test_alternatives_fall_back_on_the_best_where_a_run_of_text_has_fewer() -> None:
    text = text_of("<p>one</p> <p>two</p>", source="en", is_html=True)
    advance(text, found("un", "le"), found("deux"))
    assert text.answer().text == "<p>UN</p> <p>DEUX</p>"
    assert text.answer().alternatives == ("<p>LE</p> <p>DEUX</p>",)


def test_a_sentence_without_any_result_is_a_fault() -> None:
    with pytest.raises(DecodingError):
        advance(text_of("eins"), [])


def test_each_sentence_of_a_mixed_text_is_translated_from_its_own_language() -> None:
    german, french, english = (
        "Wo ist der nächste Bahnhof, bitte?",
        "Je ne sais vraiment pas.",
        "It is over there on the left.",
    )
    text = text_of(f"<p>{german} {french}</p><p><i>{english}</i></p>", source=None, is_html=True)
    assert [[hop.pair for hop in job.remaining] for job in text.jobs] == [
        [("de", "en"), ("en", "fr")],
        [],
        [("en", "fr")],
    ]
    assert advance(text, found("where?"), found("là-bas.")) == [german.upper(), english.upper()]
    assert advance(text, found("où ?")) == ["WHERE?"]
    answer = text.answer()
    assert answer.text == f"<p>OÙ ? {french}</p><p><i>LÀ-BAS.</i></p>"
    assert answer.detection == Detection(language="de", confidence=pytest.approx(34 / 88, abs=0.02))


def test_sentences_of_two_languages_get_one_space_between_them_whatever_tags_stand_there() -> None:
    text = text_of(
        "<p>Wo ist der nächste Bahnhof, bitte? <i>It is over there on the left.</i></p>",
        source=None,
        is_html=True,
    )
    advance(text, found("where?"), found("là-bas."))
    advance(text, found("où ?"))
    assert text.answer().text == "<p>OÙ ? <i>LÀ-BAS.</i></p>"
