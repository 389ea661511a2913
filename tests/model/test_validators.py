from collections.abc import Callable

import pytest

from model.errors import ConfigError
from model.validators import (
    require,
    require_choice,
    require_flag,
    require_given,
    require_integer,
    require_number,
)


def test_what_holds_passes() -> None:
    require(True, "field", "anything", 1)
    require_given(True, "field")
    require_choice("field", "a", ("a", "b"))
    require_flag("field", False)
    require_integer("field", 3, 3, 3)
    require_number("field", 0, 0, 0)
    require_number("field", 10**400, 0)  # too large for a float, but still a number


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: require(False, "tie", "none", 7), "`tie` must be none, but is 7 instead"),
        (
            lambda: require(False, "tie", "given by name", None),
            "`tie` must be given by name, but is None instead",
        ),
        (lambda: require_given(False, "tie"), "`tie` must be given, but is missing"),
        (lambda: require_choice("tie", "x", ("a", "b")), "`tie` must be one of a, b, but is 'x' instead"),
        (lambda: require_choice("tie", ["a"], ("a", "b")), "`tie` must be one of a, b, but is ['a'] instead"),
        (lambda: require_flag("bias", 1), "`bias` must be true or false, but is 1 instead"),
        (lambda: require_integer("depth", 0, 1), "`depth` must be an integer at least 1, but is 0 instead"),
        (lambda: require_integer("id", 9, 0, 8), "`id` must be an integer between 0 and 8, but is 9 instead"),
        (
            lambda: require_number("p", 2, 0, 1),
            "`p` must be a number at least 0 and at most 1, but is 2 instead",
        ),
        (
            lambda: require_number("p", 1, 0, 1, open_maximum=True),
            "`p` must be a number at least 0 and below 1, but is 1 instead",
        ),
        (lambda: require_number("p", -1, 0), "`p` must be a number at least 0, but is -1 instead"),
        (
            lambda: require_number("p", 0, 0, open_minimum=True),
            "`p` must be a number above 0, but is 0 instead",
        ),
    ],
)
def test_the_message_names_field_requirement_and_value(check: Callable[[], None], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check()
    assert str(caught.value) == message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "1", None])
def test_only_a_finite_number_is_a_number_and_an_int_an_integer(value: object) -> None:
    with pytest.raises(ConfigError):
        require_number("field", value, 0)
    for each in (value, 1.0):
        with pytest.raises(ConfigError):
            require_integer("field", each, 0)


def test_an_error_under_another_name_says_the_same() -> None:
    errors = ConfigError("tie", "given", None, is_missing=True), ConfigError("tie", "none", 7)
    assert [str(error.renamed("network.tie")) for error in errors] == [
        "`network.tie` must be given, but is missing",
        "`network.tie` must be none, but is 7 instead",
    ]
