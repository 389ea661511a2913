"""What must be true of any translation."""

import pytest

from benchmarks.load.texts import fault


@pytest.mark.parametrize(
    ("text", "translated"),
    [("one", "un"), ("one\n\ntwo", "un\n\ndeux"), (["one", "", "two"], ["un", "", "deux"]), ([], [])],
)
def test_a_good_answer_has_no_fault(text: str | list[str], translated: object) -> None:
    assert fault(text, translated) is None


@pytest.mark.parametrize(
    ("text", "translated", "found"),
    [
        ("one", ["un"], "a list answers a str"),
        (["one"], "un", "a str answers a list"),
        (["one", "two"], ["un"], "not one result for each text"),
        (["one"], None, "not one result for each text"),
        ("one", " ", "a blank translation"),
        ([" "], ["un"], "a blank translation"),
        ("one\n\ntwo", "un deux", "paragraphs were joined or split"),
    ],
)
def test_a_faulty_answer_is_told(text: str | list[str], translated: object, found: str) -> None:
    assert fault(text, translated) == found
