"""① A JSON object, read more strictly than the standard parser does, and never for long.

No duplicate keys, no NaN or Infinity (nor 1e999, which would become one), no numbers of thousands of
digits, no endless nesting, no crowds of keys, objects or numbers: each costs far more than its bytes.
"""

import json
import math
from typing import Final, NoReturn

from app.api.errors import RequestError

Values = dict[str, object]
LONGEST_NUMBER: Final = 32
"""Digits of a whole number at most."""
# A request has some twenty fields, some of which are numbers, and one object in it.
_MOST_KEYS: Final = 64
_MOST_VALUES: Final = 1000


def parse_object(text: str) -> Values:
    """The fields of a JSON object.

    Raises:
        RequestError: If it is none, or one that nobody needs to send.
    """
    try:
        value = (_UNCOUNTED if _is_surely_small(text) else _decoder(_Values(_MOST_VALUES))).decode(text)
    except json.JSONDecodeError:
        raise invalid_body("the body is not valid JSON") from None
    except RecursionError:
        raise invalid_body("the body is nested too deeply") from None
    if not isinstance(value, dict):
        raise invalid_body("the body must be a JSON object")
    return value


def invalid_body(message: str) -> RequestError:
    """The refusal of a body that is of its type, but not as it must be."""
    return RequestError("invalid_body", message)


def _is_surely_small(text: str) -> bool:
    # No value comes without one of these before it.
    return sum(map(text.count, ",[{")) < _MOST_VALUES


def _decoder(values: "_Values") -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=values.object,
        parse_constant=_refuse_constant,
        parse_float=values.finite,
        parse_int=values.short,
    )


class _Values:
    """What the parser makes of a body's objects and numbers.

    Args:
        most: How many there may be in all that is parsed.
    """

    def __init__(self, most: float) -> None:
        self._left = most

    def object(self, pairs: list[tuple[str, object]]) -> Values:
        """An object without duplicate keys."""
        self._spend()
        if len(pairs) > _MOST_KEYS:
            raise invalid_body(f"an object holds too many keys: at most {_MOST_KEYS}")
        values = dict(pairs)
        if len(values) < len(pairs):
            raise invalid_body("the body holds the same key twice")
        return values

    def finite(self, digits: str) -> float:
        """A number with a fraction."""
        self._spend()
        number = float(digits)
        if not math.isfinite(number):
            raise invalid_body("a number is out of range")
        return number

    def short(self, digits: str) -> int:
        """A whole number."""
        self._spend()
        if len(digits) > LONGEST_NUMBER:
            raise invalid_body("a number is out of range")
        return int(digits)

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise invalid_body(f"the body holds too many objects and numbers: at most {_MOST_VALUES}")


def _refuse_constant(_name: str) -> NoReturn:
    raise invalid_body("NaN and Infinity are not JSON")


# Making one takes longer than reading a short body.
_UNCOUNTED: Final = _decoder(_Values(math.inf))
