"""Compatibility characters in the characters of a vocabulary."""

import string

import pytest

from model.text.normalisation import nfkc_fallback

KNOWN = frozenset(string.ascii_letters + string.digits + string.punctuation + " éß的。")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a ﬁne ﬂower", "a fine flower"),
        ("ｈｅｌｌｏ，", "hello,"),
        ("½ cup", "1/2 cup"),
        ("1½ cups, 2 ¾", "1 1/2 cups, 2 3/4"),
        ("wait…", "wait..."),
        ("№ 5 ㎏ Ⅳ", "No 5 kg IV"),
        ("ﬀ的。é", "ff的。é"),
    ],
)
def test_what_the_vocabulary_lacks_is_spelt_out(text: str, plain: str) -> None:
    assert nfkc_fallback(text, KNOWN) == plain


@pytest.mark.parametrize("text", ["plain", "café 的。", "10² H₂O", "ж 🙂 ά", "℃", ""])
def test_what_has_no_known_spelling_or_needs_none_stays(text: str) -> None:
    assert nfkc_fallback(text, KNOWN) == text


def test_what_the_vocabulary_has_stays_as_it_is() -> None:
    assert nfkc_fallback("1½ …", KNOWN | {"½", "…"}) == "1½ …"
    assert nfkc_fallback("1½ ﬁ", KNOWN | {"½"}) == "1½ fi"
