"""Scripts of texts, and the prefix of a growing translation that cannot change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.text.scripts import count_words, in_script_of, letters_of_scripts, stable_prefix
from model.text.tokenizer import Tokenizer
from tests.model.text.test_tokenizer import any_text, byte_ids


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Où est la gare ?", "fr", True),
        ("Where is the station?", "fr", True),
        ("Где вокзал?", "fr", False),
        ("Где вокзал?", "ru", True),
        ("Where?", "ru", False),
        ("车站在哪里？", "zh-Hans", True),
        ("hello there my friend", "cmn", False),
        ("车站在哪里？", "en", False),
        ("汤姆住在New Haven。", "zh", True),
        ("返回 Address/Network/Interface 对象。", "zh", True),
        ("Where is it?", "zh", False),
        ("Tom a déménagé à 東京.", "fr", True),
        ("Tom lives in 华盛顿 now, doesn't he?", "zh", False),
        ("Tom moved to 東京.", "en", True),
        ("駅はどこですか。", "ja", True),
        ("역이 어디예요?", "ko", True),
        ("12:30 — 50 %", "zh", True),
        ("Где вокзал?", "xx", True),
    ],
)
def test_script(text: str, language: str, expected: bool) -> None:
    assert in_script_of(text, language) is expected


@pytest.mark.parametrize(
    ("text", "words"),
    [("Where is it?", 3), ("  Où ça ? ", 3), ("车站在哪里？", 6), ("我爱 Paris", 3), ("", 0)],
)
def test_count_words(text: str, words: int) -> None:
    assert count_words(text) == words


def test_letters_of_scripts_that_are_common() -> None:
    letters = letters_of_scripts("abcdeπ中国", at_least=2)
    assert letters.findall("Łódź, λόγος, 葡萄 12") == [*"Łódź", *"葡萄"]
    assert not letters_of_scripts("abcπ", at_least=4).search("abc")


# Combining marks, jamo, kana with their marks, Thai, apostrophes, wide spaces: where characters meet.
AWKWARD = st.text(
    alphabet="eé\u0301\u0323 漢字かか\u3099ハ\u3099กำ\u0e34한\u1112\u1161\u11ab’'a l.\u3000\u2028🙂\u200d€"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("Bonjour", ""),
        ("Bonjour le", "Bonjour"),
        ("Où est la gare ?", "Où est la gare"),
        ("two  spaces", "two"),
        ("今日は", "今日"),
        ("今日は元気です。", "今日は元気です"),
        ("iPhoneを", "iPhone"),
        ("か\u3099", ""),
        ("東京 Tokyo", "東京"),
    ],
)
def test_the_last_word_is_held_back(text: str, expected: str) -> None:
    assert stable_prefix(text) == expected


def check(tokenizer: Tokenizer, ids: list[int]) -> None:
    shown, whole = "", tokenizer.decode(ids)
    for length in range(len(ids) + 1):
        text = stable_prefix(tokenizer.decode(ids[:length]))
        assert text.startswith(shown)
        shown = text
    assert whole.startswith(shown)


@given(text=any_text | AWKWARD)
def test_nothing_of_any_text_is_taken_back(any_tokenizer: Tokenizer, text: str) -> None:
    check(any_tokenizer, any_tokenizer.encode_target(text))


@given(data=st.data())
def test_nothing_is_taken_back_whatever_is_generated(any_tokenizer: Tokenizer, data: st.DataObject) -> None:
    check(any_tokenizer, data.draw(st.lists(st.integers(0, any_tokenizer.target_vocab_size - 1))))


@given(content=st.binary(max_size=12), text=AWKWARD)
def test_nothing_is_taken_back_where_bytes_form_characters(
    tokenizer: Tokenizer, content: bytes, text: str
) -> None:
    check(tokenizer, [*byte_ids(tokenizer, content), *byte_ids(tokenizer, text.encode())])
