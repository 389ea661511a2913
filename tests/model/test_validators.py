from collections.abc import Callable
from functools import partial

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
    ("check", "arguments", "value", "requirement"),
    [
        (lambda field, value: require(False, field, "none", value), (), 7, "none"),
        (require_choice, (("a", "b"),), "x", "one of a, b"),
        (require_choice, (("a", "b"),), ["a"], "one of a, b"),
        (require_flag, (), 1, "true or false"),
        (require_integer, (1,), 0, "an integer at least 1"),
        (require_integer, (0, 8), 9, "an integer between 0 and 8"),
        (require_number, (0,), -1, "a number at least 0"),
        (require_number, (0, 1), 2, "a number at least 0 and at most 1"),
        (partial(require_number, open_maximum=True), (0, 1), 1, "a number at least 0 and below 1"),
        (partial(require_number, open_minimum=True), (0,), 0, "a number above 0"),
    ],
)
def test_the_message_names_field_requirement_and_value(
    check: Callable[..., None], arguments: tuple[object, ...], value: object, requirement: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check("tie", value, *arguments)
    assert str(caught.value) == f"`tie` must be {requirement}, but is {value!r} instead"


def test_a_missing_value_is_told_from_none() -> None:
    with pytest.raises(ConfigError, match=r"^`tie` must be given, but is missing$"):
        require_given(False, "tie")


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
