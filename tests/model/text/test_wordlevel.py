import pytest

from model.text.normalisation import separate_punctuation


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("go.", "go ."),
        ("he's calm.", "he's calm ."),
        ("va !", "va !"),
        ("wait, what?!", "wait , what ? !"),
        (".", "."),
        ("", ""),
        ("3.14", "3 .14"),
    ],
)
def test_each_mark_gets_a_space_before_it(text: str, expected: str) -> None:
    assert separate_punctuation(text) == expected
