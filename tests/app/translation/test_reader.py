"""Reading a request: languages, checkpoints, options, sentences and limits."""

from collections.abc import Mapping

import pytest

from app.translation.catalogue import Catalogue
from app.translation.jobs import Text, TextJob, TranslationRequest
from app.translation.reader import Reader
from model.errors import ConfigError, InputError, TextTooLongError, UnsupportedLanguageError
from model.text.document import Splitting
from model.text.formats.markup_syntax import HTML, MarkupSyntax
from tests.app.double import DoubleBackend

BACKEND = DoubleBackend(("de-en", (("de", "en"),)), ("en-fr", (("en", "fr"), ("fr", "en"))))
CATALOGUE = Catalogue(BACKEND.models())


def read(
    *texts: str,
    source: str | None = "en",
    target: str = "fr",
    model: str | None = None,
    markup: MarkupSyntax | None = None,
    splitting: Splitting = "sentences",
    decoding: Mapping[str, object] | None = None,
    alternatives: int = 0,
    max_tokens: float = float("inf"),
) -> list[Text]:
    request = TranslationRequest(
        texts=texts,
        fields=tuple(f"q[{i}]" for i in range(len(texts))),
        source=source,
        target=target,
        deadline=0.0,
        markup=markup,
        splitting=splitting,
        decoding=decoding or {},
        alternatives=alternatives,
        model=model,
    )
    reader = Reader(CATALOGUE, max_tokens)
    planned = reader.plan(request)
    reader.read([job for text in planned for job in text.jobs if job.remaining])
    return planned


def only_job(text: Text) -> TextJob:
    (job,) = text.jobs
    return job


def sentences(text: Text) -> list[str]:
    return [
        BACKEND.tokenizer.decode(each.source_ids[:-1]).lower() for job in text.jobs for each in job.requests
    ]


def test_sentences_are_found_in_each_text() -> None:
    first, second = read("One two. Three!\nfour", " \n")
    assert sentences(first) == ["one two.", "three!", "four"]
    assert (sentences(second), only_job(second).field) == ([], "q[1]")
    (whole,) = read("One two. Three!\nfour", splitting="none")
    assert sentences(whole) == ["one two. three! four"]


def test_markup_is_not_translated() -> None:
    (text,) = read("<p>One <b>two</b></p>", markup=HTML)
    assert sentences(text) == ["one two"]


def test_a_text_in_the_target_language_has_no_hop() -> None:
    (text,) = read("One two.", source="fr")
    assert (only_job(text).remaining, text.answer().text) == ((), "One two.")
    (detected,) = read("Où est la gare, s'il vous plaît ?", source=None)
    assert detected.detection is not None
    assert (detected.detection.language, only_job(detected).remaining) == ("fr", ())


def test_detection_prefers_languages_that_can_be_translated() -> None:
    for text, model, language in (("Wo ist der Bahnhof?", None, "de"), ("Tom!", "en-fr", "fr")):
        (found,) = read(text, source=None, target="en", model=model)
        assert found.detection is not None
        assert found.detection.language == language
    with pytest.raises(UnsupportedLanguageError, match=r"`source` must be one of .*, but is 'de'"):
        read("Wo ist der Bahnhof?", source=None, target="en", model="en-fr")


def test_lengths_hold_on_the_last_hop_and_other_options_on_both() -> None:
    (text,) = read(
        "eins zwei", source="de", decoding={"max_length": 9, "no_repeat_ngram_size": 2}, alternatives=1
    )
    first, last = only_job(text).options
    assert (first.max_length, last.max_length) == (None, 9)
    assert (first.no_repeat_ngram_size, last.no_repeat_ngram_size) == (2, 2)
    assert (first.num_hypotheses, last.num_hypotheses) == (1, 2)


def test_a_request_over_the_limit_is_not_read_to_its_end() -> None:
    with pytest.raises(TextTooLongError, match="MAX_QUEUED_TOKENS: 8, at most 7"):
        read("one two three", "four five six", "seven", max_tokens=7)


@pytest.mark.parametrize(
    ("wish", "fault"),
    [
        ({"target": "xx"}, UnsupportedLanguageError),
        ({"source": "xx"}, UnsupportedLanguageError),
        ({"source": "de", "model": "en-fr"}, UnsupportedLanguageError),
        ({"model": "other"}, InputError),
        ({"decoding": {"strategy": "greedy", "beam_size": 3, "min_length": 99}}, ConfigError),
    ],
)
def test_a_request_that_cannot_be_served_is_rejected(wish: dict[str, object], fault: type[Exception]) -> None:
    with pytest.raises(fault):
        read("one", **wish)  # type: ignore[arg-type]


def test_a_sentence_that_is_too_long_is_divided() -> None:
    short, long = read("short", "word " * 50)
    assert (len(sentences(short)), len(sentences(long))) == (1, 2)
