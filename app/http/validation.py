"""① The fields of a request checked against a schema and the limits; errors name the field or the limit."""

import re
import time
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from app.http.body import LONGEST_NUMBER, Values
from app.http.errors import RequestError
from app.settings import Settings
from model.errors import TextTooLongError

Schema = TypeVar("Schema", bound=BaseModel)

# What of the client's own text an error may repeat.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")
# Replaces what pydantic says in terms of Python.
_REASONS = {"model_type": "input should be an object", "list_type": "input should be a list"}
_RANGES = frozenset({"greater_than", "greater_than_equal", "less_than", "less_than_equal"})
_LENGTHS = frozenset({"string_too_short", "string_too_long"})
# The two shapes of texts, which pydantic puts behind their field in the location of an error.
_SHAPES = ("text", "list")


def validate(schema: type[Schema], values: Values, *, is_form: bool) -> Schema:
    """Check values against a schema; in a form, numbers are written as text.

    Raises:
        RequestError: Naming the first field that is missing, unknown, of another type or out of range.
    """
    try:
        return schema.model_validate(values, strict=not is_form)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        if first["type"] == "extra_forbidden":
            raise _unknown_field(schema, first["loc"]) from None
        field = _path(first["loc"])
        raise RequestError("invalid_field", f"`{field}`: {_reason(first)}", field) from None


def _unknown_field(schema: type[BaseModel], location: Sequence[int | str]) -> RequestError:
    """Names the field if its name is plain, and the valid field that is spelt most like it."""
    *places, name = map(str, location)
    for place in places:
        schema = cast(type[BaseModel], schema.model_fields[place].annotation)
    holder = f"`{'.'.join(places)}`" if places else "the request"
    if _PLAIN_NAME.fullmatch(name) is None:
        return RequestError("unknown_field", f"{holder} holds an unknown field", ".".join(places) or None)
    nearest = get_close_matches(name, schema.model_fields, n=1)
    hint = f"; did you mean `{nearest[0]}`?" if nearest else ""
    return RequestError("unknown_field", f"{holder} has no field `{name}`{hint}", ".".join([*places, name]))


def _reason(error: ErrorDetails) -> str:
    kind, value = error["type"], error["input"]
    if kind == "string_type" and error["loc"][1:] == _SHAPES[:1]:
        return "input should be a string or a list of strings"
    reason = _REASONS.get(kind, error["msg"][:1].lower() + error["msg"][1:])
    if kind in _RANGES:
        return f"{reason}, but is {_shortened(str(value).strip())}"
    return f"{reason}, but has {len(value)}" if kind in _LENGTHS else reason


def _shortened(number: str) -> str:
    # A number in a form may have thousands of digits.
    return number if len(number) <= LONGEST_NUMBER else f"{number[:LONGEST_NUMBER]}..."


def _path(location: Sequence[int | str]) -> str | None:
    """`("q", "list", 3)` as `q[3]`."""
    path = ""
    for depth, part in enumerate(location):
        if isinstance(part, int):
            path += f"[{part}]"
        elif depth == 0 or part not in _SHAPES:
            path += f".{part}" if path else part
    return path or None


def texts_of(texts: str | list[str], name: str = "q") -> list[tuple[str, str]]:
    """Each text with its place in the request: `q`, or `q[0]`, `q[1]` and so on."""
    if isinstance(texts, str):
        return [(name, texts)]
    return [(f"{name}[{i}]", text) for i, text in enumerate(texts)]


def check_lengths(texts: Sequence[tuple[str, str]], max_chars: int) -> None:
    """Refuse a text that is too long, before anything reads it.

    Raises:
        TextTooLongError: If one has more than MAX_CHARS characters.
    """
    for field, text in texts:
        if len(text) > max_chars:
            raise TextTooLongError(field, "MAX_CHARS", max_chars, len(text))


def deadline_of(timeout_ms: int | None, settings: Settings) -> float:
    """When a request must be answered, on the monotonic clock: after `timeout_ms`, else REQUEST_TIMEOUT_MS.

    Raises:
        RequestError: If `timeout_ms` is over MAX_TIMEOUT_MS.
    """
    if timeout_ms is not None and timeout_ms > settings.max_timeout_ms:
        figures = f"{timeout_ms}, at most {settings.max_timeout_ms}"
        message = f"`timeout_ms` is over the limit MAX_TIMEOUT_MS: {figures}"
        raise RequestError("invalid_field", message, "timeout_ms")
    return time.monotonic() + (timeout_ms or settings.request_timeout_ms) / 1000
