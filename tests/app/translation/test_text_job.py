"""One text on its way: the sentences of each hop, their translations, and the answer."""

import pytest

from app.translation.catalogue import Catalogue
from app.translation.reader import Reader
from app.translation.request import TranslationRequest
from app.translation.text_job import TextJob
from model.errors import DecodingError
from model.request import Hypothesis
from model.text.formats.markup_syntax import HTML
from tests.app.double import DoubleBackend

BACKEND = DoubleBackend(("de-en", (("de", "en"),)), ("en-fr", (("en", "fr"),)))


def job_of(text: str, *, source: str = "de", is_html: bool = False) -> TextJob:
    request = TranslationRequest(
        texts=(text,),
        fields=("q",),
        source=source,
        target="fr",
        deadline=0.0,
        markup=HTML if is_html else None,
    )
    return Reader(Catalogue(BACKEND.models())).plan(request)[0].read()


def found(*texts: str, finished: bool = True) -> list[Hypothesis]:
    """Hypotheses of one sentence, best first."""
    return [
        Hypothesis(tuple(BACKEND.tokenizer.encode(text)[:-1]), -1.0, -1.0, (), finished=finished)
        for text in texts
    ]


def advance(job: TextJob, *results: list[Hypothesis]) -> TextJob:
    return job.advance(job.sentences(results)).read()


def test_the_result_of_the_first_hop_is_read_for_the_second() -> None:
    job = job_of("eins zwei.\n\ndrei")
    assert [hop.pair for hop in job.remaining] == [("de", "en"), ("en", "fr")]
    job = advance(job, found("one two."), found("three"))
    assert [hop.pair for hop in job.remaining] == [("en", "fr")]
    sources = [BACKEND.tokenizer.decode(request.source_ids[:-1]) for request in job.requests]
    assert sources == ["ONE TWO.", "THREE"]
    job = advance(job, found("un deux."), found("trois"))
    assert (job.remaining, job.requests) == ((), [])
    answer = job.answer()
    assert (answer.text, answer.is_finished) == ("UN DEUX.\n\nTROIS", True)
    assert answer.route is job.route


def test_a_text_is_unfinished_if_any_hop_was() -> None:
    job = advance(job_of("eins"), found("one", finished=False))
    assert not advance(job, found("un")).answer().is_finished


def test_alternatives_fall_back_on_the_best_where_a_run_of_text_has_fewer() -> None:
    job = job_of("<p>one</p> <p>two</p>", source="en", is_html=True)
    answer = advance(job, found("un", "le"), found("deux")).answer()
    assert answer.text == "<p>UN</p> <p>DEUX</p>"
    assert answer.alternatives == ("<p>LE</p> <p>DEUX</p>",)


def test_an_unchanged_text_names_no_checkpoint() -> None:
    job = job_of(" \n")
    answer = job.answer()
    assert job.remaining == ()
    assert (answer.text, answer.route, answer.sentences) == (" \n", None, ())


def test_a_sentence_without_any_result_is_a_fault() -> None:
    with pytest.raises(DecodingError):
        job_of("eins").sentences([[]])


def test_a_text_that_becomes_too_long_on_the_way_is_divided() -> None:
    job = advance(job_of("eins"), found("one " * 50))
    assert len(job.requests) > 1
