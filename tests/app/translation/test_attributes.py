"""Attributes mean what they mean to a browser."""

import time

import pytest

from app.translation.markup_syntax import closes_itself, says_no


@pytest.mark.parametrize(
    "attributes",
    [
        *(' translate="no"', " translate='no'", " translate=no", " TRANSLATE = 'No' ", " a translate=no"),
        *("/translate=no", " a=b/ translate=no", " a='>'translate=no", ' translate="no" translate="yes"'),
    ],
)
def test_it_says_no(attributes: str) -> None:
    assert says_no(attributes)


@pytest.mark.parametrize(
    "attributes",
    [
        *("", " translate", " translate=yes", ' translate=""', " translate=nobody", ' translate="no way"'),
        *(' title="translate=no"', " title=translate=no", " title='a translate=no b'", " data-translate=no"),
        *(" translate=no/", " translate=no.", " translate = 'no"),
        *(' translate="yes" translate="no"', " x:translate=no", ' title="translate=no'),
    ],
)
def test_it_does_not_say_no(attributes: str) -> None:
    assert not says_no(attributes)


@pytest.mark.parametrize("attributes", ["/", " /", " a/", " a=b /", " a='b'/", ' a="b/"/', " href='/' b/"])
def test_a_slash_of_its_own_closes_an_element(attributes: str) -> None:
    assert closes_itself(attributes)


@pytest.mark.parametrize(
    "attributes", ["", " a", " a=b", " a=b/", " href=http://x.org/", " a='b' href=/", " a='/'"]
)
def test_a_slash_of_a_value_closes_nothing(attributes: str) -> None:
    assert not closes_itself(attributes)


@pytest.mark.parametrize(
    "piece", ["a", " ", "=", "a ", "a= ", "='", '="', "'\"", "a='", "/", "translate", "translate="]
)
def test_no_attributes_take_long(piece: str) -> None:
    attributes = f"translate {piece * 100_000}/"
    began = time.process_time()
    says_no(attributes)
    closes_itself(attributes)
    assert time.process_time() - began < 5  # quadratic time would be minutes
