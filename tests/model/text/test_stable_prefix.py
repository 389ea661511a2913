"""What is shown of a growing translation is never taken back, and words come whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.text.scripts import stable_prefix
from model.text.tokenizer import Tokenizer
from tests.model.text.test_tokenizer import any_text, byte_ids

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
