from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.training.data.augmentation.sentences import SentenceContext
from model.training.data.augmentation.typing_habits import (
    capitalised,
    in_capitals,
    in_lower_case,
    in_plain_letters,
    with_typing_errors,
)
from model.training.data.corpus import SentencePair

PAIR = SentencePair("Where is the Großstadt of Boston?", "Où est la métropole de Boston ?")
WORDS = st.lists(st.text("abcdeéüß", min_size=1, max_size=9), min_size=1, max_size=8)


def context(source: str, target: str) -> SentenceContext:
    return SentenceContext(source, target, [PAIR])


def test_capitals_are_on_both_sides() -> None:
    assert in_capitals(PAIR, context("de", "fr"), Random(0)) == (
        "WHERE IS THE GROSSSTADT OF BOSTON?",
        "OÙ EST LA MÉTROPOLE DE BOSTON ?",
    )


def test_a_script_without_case_stays_as_it_is() -> None:
    english, chinese = "Tom is here.", "Tom在这里。"
    to_chinese = in_capitals(SentencePair(english, chinese), context("en", "zh"), Random(0))
    assert to_chinese == ("TOM IS HERE.", "TOM在这里。")
    assert in_capitals(SentencePair(chinese, english), context("zh", "en"), Random(0)) is None
    assert in_capitals(SentencePair("ALREADY", "DÉJÀ"), context("en", "fr"), Random(0)) is None
    assert in_lower_case(SentencePair("你好。", "Hello."), context("zh", "en"), Random(0)) is None


def test_a_first_capital_is_on_both_sides() -> None:
    assert capitalised(SentencePair("way out", "salida"), context("en", "es"), Random(0)) == (
        "Way out",
        "Salida",
    )
    assert capitalised(SentencePair("exit", "出口"), context("en", "zh"), Random(0)) == ("Exit", "出口")
    assert capitalised(SentencePair("izin ver", "let"), context("tr", "en"), Random(0)) == ("İzin ver", "Let")


@pytest.mark.parametrize("source", ["Ausgang", "出口", "42 ways", "¿dónde?", "…"])
def test_without_a_small_letter_in_front_there_is_none_to_make(source: str) -> None:
    assert capitalised(SentencePair(source, "exit"), context("de", "en"), Random(0)) is None


def test_lower_case_is_the_source_alone_and_half_lose_their_stop() -> None:
    seen = [in_lower_case(PAIR, context("de", "fr"), Random(seed)) for seed in range(100)]
    whole = SentencePair("where is the großstadt of boston?", PAIR.target)
    bare = SentencePair("where is the großstadt of boston", "Où est la métropole de Boston")
    assert set(seen) == {whole, bare}
    assert 30 < seen.count(bare) < 70


@pytest.mark.parametrize(
    ("language", "text", "plain"),
    [
        ("es", "¿Cómo estás?", {"Como estas?"}),
        ("fr", "Où est l'été ?", {"Ou est l'ete ?", "Ou est lete ?"}),
        ("fr", "Sœur", {"Soeur"}),
        ("de", "Schöne Größe", {"Schoene Groesse"}),
        ("de", "ÜBUNG, Übung", {"UEBUNG, Uebung"}),
        ("sv", "Ön är så grön", {"On ar sa gron"}),
        ("pl", "Łódź", {"Lodz"}),
        ("en", "I can't", {"I cant"}),
        ("en", "Come here.", set()),
        ("zh", "我不能。", set()),
        ("ja", "ありがとうございます", set()),
        ("hi", "क्या", set()),
        ("ru", "Мой йод", set()),
    ],
)
def test_plain_letters_are_those_of_any_keyboard(language: str, text: str, plain: set[str]) -> None:
    """Where marks make other letters of them, as in kana, they stay."""
    pair = SentencePair(text, "Cible.")
    seen = {in_plain_letters(pair, context(language, "fr"), Random(seed)) for seed in range(100)}
    small = {
        in_lower_case(SentencePair(each, "Cible."), context(language, "fr"), Random(0)) for each in plain
    }
    whole = {copy for copy in seen if copy and copy.target == "Cible."}
    assert {copy.source for copy in whole} == plain | {copy.source for copy in small if copy}
    assert None not in seen or not plain


def test_plain_letters_may_lose_their_stop_with_their_capitals() -> None:
    pair = SentencePair("¿Cómo estás?", "Ça va ?")
    seen = {in_plain_letters(pair, context("es", "fr"), Random(seed)) for seed in range(100)}
    assert seen == {("Como estas?", "Ça va ?"), ("como estas?", "Ça va ?"), ("como estas", "Ça va")}


@given(WORDS, st.integers(0, 2**32))
def test_slips_are_few_and_in_long_words_of_the_source(words: list[str], seed: int) -> None:
    pair = SentencePair(" ".join(words), "Cible.")
    altered = with_typing_errors(pair, context("de", "fr"), Random(seed))
    if all(len(word) < 5 for word in words):
        assert altered is None
        return
    assert altered is not None
    assert altered.target == pair.target
    typed = altered.source.split(" ")
    changed = [(word, slip) for word, slip in zip(words, typed, strict=True) if word != slip]
    assert len(changed) <= 2
    for word, slip in changed:
        assert len(word) >= 5
        assert abs(len(word) - len(slip)) <= 1
        assert slip[0] == word[0] or word[0] in "éü"


def test_what_is_not_typed_by_letters_has_no_slips() -> None:
    pair = SentencePair("我百分之百同意Harvard。", "I agree.")
    assert with_typing_errors(pair, context("zh", "en"), Random(0)) is None
