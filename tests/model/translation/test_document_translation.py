"""A text becomes requests and a text again, with nothing lost on the way."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.decode_request import DecodeOptions, Hypothesis
from model.errors import ConfigError, DecodingError, TextTooLongError, UnsupportedLanguageError
from model.text.tags import closing_tag, opening_tag
from model.text.tokenizer import Tokenizer
from model.translation.document_translation import DocumentTranslation as Document
from model.translation.document_translation import rebuild_all, resolve_pair, sentences_of, with_alternatives
from model.translation.result import Translation
from tests.tiny import tiny_card

CARD = tiny_card()
GREEDY = DecodeOptions(strategy="greedy")


@pytest.fixture(scope="module")
def tokenizer(tiny_tokenizer_folder: Path) -> Tokenizer:
    return Tokenizer.load(tiny_tokenizer_folder)


def read(text: str, tokenizer: Tokenizer, target: str = "fr", **changes: Any) -> Document:
    """Reads a text for the tiny checkpoint, greedily unless told otherwise."""
    given = {"card": CARD, "options": GREEDY} | changes
    return Document.read(text, tokenizer=tokenizer, pair=("en", target), **given)


def hypothesis(text: str, tokenizer: Tokenizer, log_probability: float = -1.0) -> Hypothesis:
    ids = tokenizer.encode_target(text)
    each = log_probability / len(ids)
    return Hypothesis(tuple(ids[:-1]), each, log_probability, (each,) * len(ids), finished=True)


def finish(document: Document, results: Sequence[Sequence[Hypothesis]], tokenizer: Tokenizer) -> Translation:
    return document.rebuild(sentences_of([document], results, tokenizer))


def test_each_sentence_is_a_request(tokenizer: Tokenizer) -> None:
    document = read("Thank you.  The cat sleeps.\n", tokenizer)
    assert [request.source_ids for request in document.requests] == [
        tuple(tokenizer.encode(sentence, target_language="fr"))
        for sentence in ("Thank you.", "The cat sleeps.")
    ]
    assert [sentence.ids for sentence in document.sentences] == [r.source_ids for r in document.requests]


def test_what_is_one_sentence_is_one_request(tokenizer: Tokenizer) -> None:
    text = "Thank you.\nThe cat sleeps. \n"
    document = read(text, tokenizer, splitting="none")
    (request,) = document.requests
    in_one_line = tokenizer.encode("Thank you. The cat sleeps.", target_language="fr")
    assert request.source_ids == tuple(in_one_line)
    assert finish(document, [[hypothesis("Merci.", tokenizer)]], tokenizer).text == "Merci. \n"


@pytest.mark.parametrize("text", ["", "  ", "\u3000\n", "42", "\u200b"])
def test_a_blank_text_needs_no_decoder(text: str, tokenizer: Tokenizer) -> None:
    document = read(text, tokenizer)
    assert document.requests == ()
    translation = finish(document, [], tokenizer)
    assert (translation.text, translation.alternatives, translation.score) == (text, (), None)


@given(text=st.text())
def test_a_text_into_its_own_language_is_unchanged(text: str, tokenizer: Tokenizer) -> None:
    document = read(text, tokenizer, target="en")
    assert document.requests == ()
    assert finish(document, [], tokenizer).text == text


@pytest.mark.parametrize(
    "text",
    ["cat " * 80, "cat" * 200, "the cat, the dog " * 30, f"a{opening_tag(1)}{'cat ' * 90}{closing_tag(1)}b"],
)
def test_a_sentence_over_the_limit_is_divided(text: str, tokenizer: Tokenizer) -> None:
    document = read(f"Thank you. {text}\n", tokenizer)
    assert all(len(request.source_ids) <= CARD.max_source_length for request in document.requests)
    assert len(document.requests) > 2
    own = document.document.rebuild(document.document.sentences)
    assert own == f"Thank you. {text}\n"


def test_a_sentence_over_the_limit_is_divided_at_clauses_and_then_at_words(tokenizer: Tokenizer) -> None:
    clauses = read("the cat sleeps, the dog sleeps " * 12, tokenizer).document.sentences
    assert all(clause.startswith("the dog sleeps") for clause in clauses[1:])
    words = read("cat dog " * 60, tokenizer).document.sentences
    assert {word for part in words for word in part.split()} == {"cat", "dog"}


def test_a_limit_that_no_text_fits_is_named(tokenizer: Tokenizer) -> None:
    message = r"`q\[3\]` is over the limit max_source_length: \d+, at most 2"
    with pytest.raises(TextTooLongError, match=message):
        read("Thank you.", tokenizer, card=dataclasses.replace(CARD, max_source_length=2), field="q[3]")


def test_alternatives_are_made_rank_by_rank(tokenizer: Tokenizer) -> None:
    document = read("Thank you. The cat sleeps.", tokenizer)
    results = [
        [hypothesis(text, tokenizer) for text in ("Merci.", "Bonjour.", "Merci.")],
        [hypothesis("Le chat dort.", tokenizer)],
    ]
    translation = finish(document, results, tokenizer)
    assert translation.text == "Merci. Le chat dort."
    assert translation.alternatives == ("Bonjour. Le chat dort.",)
    assert [sentence.text for sentence in translation.sentences] == ["Merci.", "Le chat dort."]


def test_the_score_is_per_token_of_the_whole_text(tokenizer: Tokenizer) -> None:
    document = read("Thank you. The cat sleeps.", tokenizer)
    best = [hypothesis("Merci.", tokenizer, -3.0), hypothesis("Le chat dort.", tokenizer, -5.0)]
    tokens = sum(len(each.token_log_probabilities) for each in best)
    assert finish(document, [[each] for each in best], tokenizer).score == pytest.approx(-8.0 / tokens)


def test_a_sentence_without_hypotheses_is_a_fault(tokenizer: Tokenizer) -> None:
    with pytest.raises(DecodingError, match="no translation"):
        sentences_of([read("Thank you.", tokenizer)], [[]], tokenizer)


def test_documents_share_one_row_of_results(tokenizer: Tokenizer) -> None:
    documents = [read(text, tokenizer) for text in ("Thank you.", "", "The cat sleeps. The dog sleeps.")]
    texts = ("Merci.", "Le chat dort.", "Le chien dort.")
    sentences = sentences_of(documents, [[hypothesis(text, tokenizer)] for text in texts], tokenizer)
    translations = rebuild_all(documents, sentences)
    texts = ("Merci.", "", "Le chat dort. Le chien dort.")
    assert tuple(translation.text for translation in translations) == texts


def test_the_checkpoint_s_limit_bounds_the_translation(tokenizer: Tokenizer) -> None:
    generous = DecodeOptions(strategy="greedy", max_length_ratio=50, min_length=70)
    bounded = read("Thank you.", tokenizer, options=generous).requests[0].options
    assert (bounded.max_length, bounded.min_length) == (64, 64)
    short = DecodeOptions(strategy="greedy", max_length=5)
    assert read("Thank you.", tokenizer, options=short).requests[0].options == short


@pytest.mark.parametrize(
    ("source", "target", "pair"),
    [("en", "fr", ("en", "fr")), ("EN", "fr-CA", ("en", "fr")), ("en-GB", "en", ("en", "en"))],
)
def test_usual_codes_are_understood(source: str, target: str, pair: tuple[str, str]) -> None:
    assert resolve_pair(CARD, source, target) == pair


@pytest.mark.parametrize(("source", "target"), [("de", "de"), ("de", "fr"), ("en", "de"), ("", "fr")])
def test_other_languages_are_refused(source: str, target: str) -> None:
    with pytest.raises(UnsupportedLanguageError):
        resolve_pair(CARD, source, target)


def test_a_code_with_a_region_may_be_the_checkpoint_s_own() -> None:
    card = tiny_card(pairs=(("en", "pt-BR"), ("en", "pt")))
    assert resolve_pair(card, "en", "pt-BR") == ("en", "pt-BR")
    assert resolve_pair(card, "en", "pt-PT") == ("en", "pt")


def test_alternatives_widen_the_search() -> None:
    assert with_alternatives(GREEDY, 0) == GREEDY
    assert with_alternatives(GREEDY, 2) == DecodeOptions(strategy="beam", beam_size=3, num_hypotheses=3)
    assert with_alternatives(DecodeOptions(beam_size=8), 2).beam_size == 8
    assert with_alternatives(DecodeOptions(beam_size=2), 4).beam_size == 5
    assert with_alternatives(DecodeOptions(strategy="sample"), 2).num_hypotheses == 3
    with pytest.raises(ConfigError, match="beam_size"):
        with_alternatives(GREEDY, 64)


@pytest.mark.parametrize("text", ["你好", " Привет, как дела? \n", "\ufdfa" * 500, "a" + "\u0301" * 500])
def test_what_cannot_be_spelt_needs_no_decoder_however_long(text: str, tokenizer: Tokenizer) -> None:
    document = read(text, tokenizer)
    assert document.requests == ()
    assert finish(document, [], tokenizer).text == text


def test_what_cannot_be_spelt_stays_in_its_place(tokenizer: Tokenizer) -> None:
    document = read("Thank you.  你好!\n\tПривет. The cat sleeps. 你好", tokenizer)
    assert len(document.requests) == 2
    results = [[hypothesis("Merci.", tokenizer)], [hypothesis("Le chat dort.", tokenizer)]]
    translation = finish(document, results, tokenizer)
    assert translation.text == "Merci.  你好!\n\tПривет. Le chat dort. 你好"
    assert [sentence.source for sentence in translation.sentences] == ["Thank you.", "The cat sleeps."]


def test_a_sentence_that_is_partly_foreign_is_translated(tokenizer: Tokenizer) -> None:
    assert len(read("The cat 你 sleeps on the mat.", tokenizer).requests) == 1
    assert len(read("the cat 你 sleeps " * 20, tokenizer).requests) > 1


def test_a_sentence_in_another_script_is_not_translated(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tokenizer, "can_spell", lambda *_: True)
    document = read("東京、{x} 2020\nTom と\nПока!", tokenizer)
    assert [sentence.text for sentence in document.sentences] == ["Tom と"]
    assert document.document.rebuild(["Tom"]) == "東京、{x} 2020\nTom\nПока!"


def test_a_sentence_of_kept_strings_is_not_translated(tokenizer: Tokenizer) -> None:
    document = read("{min}–{max}\nThank {you}.\nhttps://example.org: A4", tokenizer)
    assert [sentence.text for sentence in document.sentences] == ["Thank {you}."]
