"""Second attempts: of what, how, and which of the two is given."""

import dataclasses
from pathlib import Path
from unittest.mock import Mock

import pytest

from model.decode_request import DecodeOptions, DecodeRequest, Hypothesis
from model.text.glossary import Term
from model.text.source_sentence import SourceSentence
from model.text.tags import closing_tag, opening_tag, without_tags
from model.text.tokenizer import Tokenizer
from model.translation.result import Diagnosis, SentenceTranslation, better_of, second_request
from model.translation.tag_placement import set_tags


@pytest.fixture(scope="module")
def tokenizer(tiny_tokenizer_folder: Path) -> Tokenizer:
    return Tokenizer.load(tiny_tokenizer_folder)


def hypothesis(text: str, tokenizer: Tokenizer, *, finished: bool = True) -> Hypothesis:
    return Hypothesis(tuple(tokenizer.encode_target(text)[:-1]), -1.0, -1.0, (), finished)


def translated(
    text: str,
    tokenizer: Tokenizer,
    options: DecodeOptions,
    *,
    finished: bool = True,
    source_text: str = "Thank you.",
) -> SentenceTranslation:
    source = SourceSentence.read(source_text, ("en", "fr"), tokenizer)
    result = [hypothesis(text, tokenizer, finished=finished)]
    return SentenceTranslation.of(source, "fr", DecodeRequest(source.ids, options), result, tokenizer)


def test_what_looks_fine_is_left_alone(tokenizer: Tokenizer) -> None:
    sentence = translated("Merci.", tokenizer, DecodeOptions())
    assert sentence.diagnosis is None
    assert second_request(sentence) is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (DecodeOptions(strategy="greedy"), DecodeOptions(beam_size=4)),
        (DecodeOptions(beam_size=8, length_penalty=0.5), DecodeOptions(beam_size=8, length_penalty=0.5)),
        (DecodeOptions(strategy="sample", num_hypotheses=6), DecodeOptions(beam_size=6, num_hypotheses=6)),
        (DecodeOptions(strategy="sample", beam_size=9), DecodeOptions(beam_size=4)),
        (DecodeOptions(repetition_penalty=1.5), DecodeOptions(repetition_penalty=1.5)),
        (DecodeOptions(min_length=7, max_length=9), DecodeOptions(min_length=7, max_length=9)),
    ],
)
def test_the_second_search_is_a_beam_that_may_not_repeat_itself(
    tokenizer: Tokenizer, first: DecodeOptions, second: DecodeOptions
) -> None:
    sentence = translated("", tokenizer, first)
    request = second_request(sentence)
    assert request is not None
    assert request.source_ids == sentence.request.source_ids
    assert request.options == dataclasses.replace(
        second,
        no_repeat_ngram_size=3,
        repetition_penalty=max(second.repetition_penalty, 1.1),
        min_length=max(second.min_length, 3),
    )


def test_the_second_holds_a_token_and_two_where_the_first_held_no_text(tokenizer: Tokenizer) -> None:
    """EOS counts as one; the first may have been white space alone."""
    empty = translated("", tokenizer, DecodeOptions())
    copied = empty._replace(diagnosis=Diagnosis("copy"))
    requests = [second_request(each) for each in (empty, copied)]
    assert [request.options.min_length for request in requests if request] == [3, 2]


@pytest.mark.parametrize("longest", [1, 2, 3])
def test_the_second_stays_within_the_limits_of_the_first(tokenizer: Tokenizer, longest: int) -> None:
    options = DecodeOptions(max_length=longest, no_repeat_ngram_size=2)
    request = second_request(translated("", tokenizer, options))
    assert request is not None
    assert (request.options.min_length, request.options.max_length) == (longest, longest)
    assert request.options.no_repeat_ngram_size == 2


@pytest.mark.parametrize(("repetitions", "is_tried"), [(7, True), (8, False), (200, False)])
def test_a_source_that_repeats_itself_gets_no_second_attempt(
    tokenizer: Tokenizer, repetitions: int, *, is_tried: bool
) -> None:
    ids = (*[tokenizer.encode_target("?")[-2]] * repetitions, tokenizer.eos_id)
    result = [hypothesis("a", tokenizer, finished=False)]
    source = SourceSentence("?" * repetitions, "?" * repetitions, ids)
    sentence = SentenceTranslation.of(source, "fr", DecodeRequest(ids, DecodeOptions()), result, tokenizer)
    assert sentence.diagnosis == Diagnosis("unfinished")
    assert (second_request(sentence) is not None) is is_tried
    assert second_request(sentence._replace(diagnosis=Diagnosis("empty"))) is not None


def test_there_is_no_third_attempt(tokenizer: Tokenizer) -> None:
    """Whoever searches so by default has nothing else to try."""
    request = second_request(translated("", tokenizer, DecodeOptions()))
    assert request is not None
    again = translated("", tokenizer, request.options)
    assert again.diagnosis == Diagnosis("empty")
    assert second_request(again) is None


@pytest.mark.parametrize(
    ("text", "finished", "kept"), [("Merci.", True, True), ("Merci.", False, False), ("", True, False)]
)
def test_the_second_translation_is_given_only_if_nothing_is_wrong_with_it(
    tokenizer: Tokenizer, text: str, finished: bool, kept: bool
) -> None:
    first = translated("", tokenizer, DecodeOptions())
    request = second_request(first)
    assert request is not None
    sentence = better_of(first, request, [hypothesis(text, tokenizer, finished=finished)])
    assert sentence.diagnosis == Diagnosis("empty", retried=True, kept=kept)
    assert sentence.text == (text if kept else "")
    assert sentence.request == (request if kept else first.request)


def test_a_second_search_that_finds_nothing_leaves_the_first(tokenizer: Tokenizer) -> None:
    first = translated("", tokenizer, DecodeOptions())
    request = second_request(first)
    assert request is not None
    assert better_of(first, request, []) == first


@pytest.mark.parametrize("strategy", ["greedy", "beam"])
def test_of_a_wide_beam_the_best_translation_with_its_brackets_is_given(
    tokenizer: Tokenizer, strategy: str
) -> None:
    options = DecodeOptions.from_dict({"strategy": strategy, "min_length": 2})
    first = translated("Merci (bien.", tokenizer, options, source_text="Thank you (well).")
    assert first.diagnosis == Diagnosis("brackets")
    request = second_request(first)
    assert request is not None
    assert request.options == DecodeOptions(beam_size=8, num_hypotheses=8, min_length=2)
    found = [hypothesis(text, tokenizer) for text in ("Merci bien).", "Merci (bien).", "Merci (b).")]
    sentence = better_of(first, request, found)
    assert sentence.texts == ("Merci (bien).",)
    assert sentence.diagnosis == Diagnosis("brackets", retried=True, kept=True)
    assert better_of(first, request, found[:1]).text == first.text


@pytest.mark.parametrize(("beam_size", "wide"), [(4, 8), (12, 12)])
def test_alternatives_follow_the_translation_with_its_brackets_and_alone_get_its_tags(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, beam_size: int, wide: int
) -> None:
    options = DecodeOptions(beam_size=beam_size, num_hypotheses=2)
    source = f"{opening_tag(0)}Thank{closing_tag(0)} you (well)."
    first = translated("Merci bien.", tokenizer, options, source_text=source)
    request = second_request(first)
    assert request is not None
    assert request.options == DecodeOptions(beam_size=wide, num_hypotheses=wide)
    texts = ("Merci bien).", "Merci (bien).", "Merci bien.", "Merci (b).")
    tagged = Mock(wraps=set_tags)
    monkeypatch.setattr("model.translation.result.set_tags", tagged)
    sentence = better_of(first, request, [hypothesis(text, tokenizer) for text in texts])
    assert tuple(without_tags(text)[0] for text in sentence.texts) == texts[1:3]
    assert tagged.call_count == 2


def test_a_term_of_a_glossary_may_be_in_another_script(tokenizer: Tokenizer) -> None:
    result = [hypothesis("Merci 太.", tokenizer)]
    request = DecodeRequest((5, 1), DecodeOptions())
    sentence = SourceSentence("Thank you.", "Thank you.", request.source_ids)
    given = sentence._replace(terms=(Term("you", "太"),))
    assert SentenceTranslation.of(sentence, "fr", request, result, tokenizer).diagnosis == Diagnosis("script")
    assert SentenceTranslation.of(given, "fr", request, result, tokenizer).diagnosis is None
