import pytest

from model.text.languages import (
    canonical_code,
    gains_spaces,
    has_unspaced_sentences,
    has_unspaced_words,
    known_code,
)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("en", "en"),
        ("EN", "en"),
        ("en-GB", "en"),
        ("zh-Hans", "zh"),
        ("zh_CN", "zh"),
        ("pt-br", "pt"),
        (" fr ", "fr"),
        ("de_DE.UTF-8", "de"),
        ("iw", "he"),
        ("cmn", "zh"),
        ("auto", "auto"),
        ("", ""),
    ],
)
def test_a_code_is_reduced_to_its_language(code: str, expected: str) -> None:
    assert canonical_code(code) == expected


@pytest.mark.parametrize(
    ("code", "words", "sentences"),
    [
        ("zh-Hans", True, True),
        ("cmn", True, True),
        ("JA", True, True),
        ("th", True, False),
        ("ko", False, False),
    ],
)
def test_spaces_between_words_and_between_sentences(code: str, words: bool, sentences: bool) -> None:
    assert (has_unspaced_words(code), has_unspaced_sentences(code)) == (words, sentences)


def test_spaces_are_gained_between_a_language_without_and_one_with_them() -> None:
    languages = ("zh", "ja", "en-GB")
    assert [(s, t) for s in languages for t in languages if gains_spaces(s, t)] == [
        ("zh", "en-GB"),
        ("ja", "en-GB"),
    ]


@pytest.mark.parametrize(
    ("code", "known", "meant"),
    [
        ("EN", "en fr", "en"),
        ("en-GB", "en fr", "en"),
        ("pt-br", "en pt-BR pt", "pt-BR"),
        ("PT_BR", "en pt-BR pt", "pt-BR"),
        ("pt-PT", "en pt-BR pt", "pt"),
        ("pt", "en pt-BR", "pt-BR"),
        ("PT", "pt-BR pt-PT", None),
        ("pt-PT", "en pt-BR", None),
        ("ZH-HANS", "zh-Hans", "zh-Hans"),
        ("cmn", "zh-Hans", "zh-Hans"),
        ("xx", "en fr", None),
        ("", "en fr", None),
    ],
)
def test_a_code_means_a_known_one(code: str, known: str, meant: str | None) -> None:
    assert known_code(code, known.split()) == meant
