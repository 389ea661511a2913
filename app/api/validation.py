"""① Plain values become a request; what does not fit is refused by field, and only numbers are shown."""

from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from app.api.errors import RequestError
from app.api.strict_json import LONGEST_NUMBER, Values
from app.settings import Settings
from model.errors import TextTooLongError

Schema = TypeVar("Schema", bound=BaseModel)

# Where pydantic speaks of Python.
_REASONS = {"model_type": "input should be an object", "list_type": "input should be a list"}
# What may be wrong with a number that is one.
_RANGES = frozenset({"greater_than", "greater_than_equal", "less_than", "less_than_equal"})
_LENGTHS = frozenset({"string_too_short", "string_too_long"})
# Names of the two shapes of texts, which pydantic puts behind their field in the location of an error.
_SHAPES = ("text", "list")


def validate(schema: type[Schema], values: Values, *, is_form: bool) -> Schema:
    """Check values against a schema; those of a form may be numbers written as text.

    Raises:
        RequestError: Naming the first field that is missing, unknown, of another type or out of range.
    """
    try:
        return schema.model_validate(values, strict=not is_form)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise _refusal(first) from None


def _refusal(error: ErrorDetails) -> RequestError:
    field = _path(error["loc"])
    if error["type"] == "extra_forbidden" or field is None:
        # The name of an unknown field is the client's text, so only where it stands is said.
        place = _path(error["loc"][:-1])
        holder = f"`{place}`" if place else "the request"
        return RequestError("unknown_field", f"{holder} holds an unknown field", place)
    return RequestError("invalid_field", f"`{field}`: {_reason(error)}", field)


def _reason(error: ErrorDetails) -> str:
    kind, value = error["type"], error["input"]
    if kind == "string_type" and error["loc"][1:] == _SHAPES[:1]:
        return "input should be a string or a list of strings"
    reason = _REASONS.get(kind, error["msg"][:1].lower() + error["msg"][1:])
    if kind in _RANGES:
        return f"{reason}, but is {_shortened(str(value).strip())}"
    return f"{reason}, but has {len(value)}" if kind in _LENGTHS else reason


def _shortened(number: str) -> str:
    # That of a form could have thousands of digits.
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


def fields_of(texts: str | list[str], name: str = "q") -> list[tuple[str, str]]:
    """Each text with its place in the request: `q`, or `q[0]`, `q[1]` and so on."""
    if isinstance(texts, str):
        return [(name, texts)]
    return [(f"{name}[{i}]", text) for i, text in enumerate(texts)]


def check_count(values: Values, name: str, most: int) -> None:
    """Refuse too many texts, before anything looks at each of them.

    Args:
        values: Of a request.
        name: Of the field that holds texts.
        most: How many there may be.

    Raises:
        RequestError: If there are more.
    """
    texts = values.get(name)
    if isinstance(texts, list):
        require_room(name, len(texts), most)


def require_room(name: str, count: int, most: int) -> None:
    """Refuse so many texts.

    Raises:
        RequestError: If there are more than there may be.
    """
    if count > most:
        limit = "MAX_ITEMS" if name == "q" else "of texts"
        message = f"`{name}` is over the limit {limit}: {count}, at most {most}"
        raise RequestError("too_many_items", message, name)


def seconds_allowed(timeout_ms: int | None, settings: Settings) -> float:
    """How long a request may take: what it asks for, else REQUEST_TIMEOUT_MS.

    Raises:
        RequestError: If it asks for more than MAX_TIMEOUT_MS.
    """
    if timeout_ms is None:
        return settings.request_timeout_ms / 1000
    if timeout_ms > settings.max_timeout_ms:
        figures = f"{timeout_ms}, at most {settings.max_timeout_ms}"
        message = f"`timeout_ms` is over the limit MAX_TIMEOUT_MS: {figures}"
        raise RequestError("invalid_field", message, "timeout_ms")
    return timeout_ms / 1000


def check_lengths(texts: Sequence[tuple[str, str]], settings: Settings) -> None:
    """Refuse a too long text, before anything looks into it.

    Raises:
        TextTooLongError: If one has more than MAX_CHARS characters.
    """
    for field, text in texts:
        if len(text) > settings.max_chars:
            raise TextTooLongError(field, "MAX_CHARS", settings.max_chars, len(text))
