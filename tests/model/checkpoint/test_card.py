"""A card refuses what cannot work, and answers which languages, limits and options apply."""

import pytest

from model.checkpoint.card import ModelCard
from model.decode_request import DecodeOptions
from model.errors import ConfigError, UnsupportedLanguageError
from tests.tiny import tiny_card

CARD = tiny_card(pairs=(("en", "fr"), ("en", "de"), ("fr", "en")), decoding=DecodeOptions(strategy="greedy"))


def test_languages_keep_their_order() -> None:
    assert CARD.sources == ("en", "fr")
    assert CARD.targets("en") == ("fr", "de")
    assert CARD.targets("de") == ()
    assert CARD.languages == ("en", "fr", "de")


def test_languages_are_named_with_all_their_hyphens_either_way_round() -> None:
    card = tiny_card(pairs=(("pt-BR", "en"),))
    assert card.languages_named("pt-BR-en") == ("pt-BR", "en")
    assert card.languages_named("en-pt-BR") == ("en", "pt-BR")
    assert card.languages_named("pt-en") is None


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("de", "en", "`source` must be one of en, fr, but is 'de'"),
        ("en", "es", "`target` must be one of de, fr, but is 'es'"),
        ("fr", "de", "`target` must be one of en, but is 'de'"),
    ],
)
def test_an_unknown_direction_is_refused_by_name(source: str, target: str, message: str) -> None:
    CARD.require_pair("en", "de")
    with pytest.raises(UnsupportedLanguageError, match=message):
        CARD.require_pair(source, target)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "a/b"),
        ("name", "x" * 65),
        ("version", "1\n"),
        ("version", 1),
        ("pairs", ()),
        ("pairs", (("en",),)),
        ("pairs", (("en", "FR"),)),
        ("pairs", (("en", "fr"), ("en", "fr"))),
        ("max_source_length", 1),
        ("max_target_length", 0),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"`{field}` must be"):
        tiny_card(**{field: value})


def test_a_card_survives_json() -> None:
    assert ModelCard.from_dict(CARD.to_dict()) == CARD


def test_many_pairs_are_stored_as_sources_and_targets() -> None:
    codes = [f"{first}{second}" for first in "abcdefghij" for second in "abcdefghijklmnopqrst"]
    pairs = tuple((source, target) for source in codes for target in codes if source != target)
    card = tiny_card(pairs=pairs)
    stored = card.to_dict()
    assert stored["pairs"] == {"sources": codes, "targets": codes}
    assert ModelCard.from_dict(stored) == card
    assert card.sides == (tuple(codes), tuple(codes))
    for pair in pairs[::400]:
        card.require_pair(*pair)
        assert card.languages_named("-".join(pair)) == pair
    assert len(card.languages) == 200
    with pytest.raises(UnsupportedLanguageError, match="`source` must be one of aa, ab"):
        card.require_pair("zz", "aa")
    with pytest.raises(UnsupportedLanguageError, match="`target` must be one of ab, ac"):
        card.require_pair("aa", "aa")
    assert tiny_card(pairs=pairs[:-1]).sides is None


@pytest.mark.parametrize(
    "pairs",
    [
        {"sources": ["en"]},
        {"sources": ["en"], "targets": "fr"},
        {"sources": ["en"], "targets": ["FR"]},
        {"sources": ["en"], "targets": ["en"]},
        {"sources": ["en"], "targets": [["fr"]], "more": []},
        {"sources": ["en"] * 2001, "targets": ["fr"]},
        "en-fr",
    ],
)
def test_sources_and_targets_that_cannot_work_are_refused(pairs: object) -> None:
    with pytest.raises(ConfigError, match="`pairs` must be"):
        ModelCard.from_dict({**CARD.to_dict(), "pairs": pairs})


def test_licence_and_origin_are_stored_if_known() -> None:
    card = tiny_card(licence="cc-by-4.0", origin="Helsinki-NLP/opus-mt-en-fr")
    assert ModelCard.from_dict(card.to_dict()) == card
    assert not {"licence", "origin"} & CARD.to_dict().keys()
    with pytest.raises(ConfigError, match="`licence` must be one line of text"):
        tiny_card(licence="a\nb")


@pytest.mark.parametrize("key", ["name", "pairs", "decoding"])
def test_a_missing_or_unknown_key_is_refused_by_name(key: str) -> None:
    values = CARD.to_dict()
    with pytest.raises(ConfigError, match="`novel` must be one of"):
        ModelCard.from_dict({**values, "novel": 1})
    del values[key]
    with pytest.raises(ConfigError, match=f"`{key}` must be given"):
        ModelCard.from_dict(values)


def test_given_options_win_over_the_defaults() -> None:
    assert CARD.options({}) == DecodeOptions(strategy="greedy")
    assert CARD.options({"temperature": 2.0}).strategy == "greedy"
    assert CARD.options({"beam_size": 3}) == DecodeOptions(strategy="beam", beam_size=3)
    assert CARD.options({"beam_size": 3, "strategy": "sample"}).strategy == "sample"


def test_options_that_look_alike_are_told_apart() -> None:
    assert CARD.options({"top_k": 1}) is CARD.options({"top_k": 1})
    with pytest.raises(ConfigError, match="top_k"):
        CARD.options({"top_k": True})
    assert CARD.options({"suppress_ids": [5]}).suppress_ids == (5,)


def test_options_over_the_limit_are_refused() -> None:
    assert CARD.options({"max_length": 64}).max_length == 64
    with pytest.raises(
        ConfigError, match="`max_length` must be at most 64, the limit max_target_length of tiny"
    ):
        CARD.options({"max_length": 65})
    with pytest.raises(ConfigError, match="`min_length` must be at most 64"):
        CARD.options({"min_length": 65})


def test_defaults_over_the_limit_are_refused() -> None:
    with pytest.raises(ConfigError, match="`max_length` must be at most 64, the limit max_target_length"):
        tiny_card(decoding=DecodeOptions(max_length=65))


def test_what_is_no_number_is_refused_before_it_is_compared() -> None:
    with pytest.raises(ConfigError, match="`min_length` must be an integer"):
        CARD.options({"max_length": 5, "min_length": "3"})
