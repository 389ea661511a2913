"""① A request with a body, read once: its permit, its fields, its client, and their checks.

Errors name the field or the limit.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final, Generic, NamedTuple, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request

from app.admission.gate import PERMIT
from app.admission.keys import key_in, owner_of
from app.http.body import LONGEST_NUMBER, Body, Values, header_of, parse_form, read_body, require_count
from app.http.errors import RequestError
from app.lifecycle.context import Context
from app.settings import Settings
from model.errors import TextTooLongError

Schema = TypeVar("Schema", bound=BaseModel)

# What other services call the text to translate.
_NAMES_OF_Q = frozenset(("text", "texts", "input", "inputs", "query", "sentence", "sentences"))
# What of the client's own text an error may repeat.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")
# Replaces what pydantic says in terms of Python.
_REASONS = {
    "model_type": "input should be an object",
    "list_type": "input should be a list",
    "string_unicode": "input should not hold lone surrogates",
}
_RANGES = frozenset({"greater_than", "greater_than_equal", "less_than", "less_than_equal"})
_LENGTHS = frozenset({"string_too_short", "string_too_long", "too_short", "too_long"})
# The two shapes of texts, which pydantic puts behind their field in the location of an error.
_SHAPES = ("text", "list")

WAITED: Final = "waited"
"""Key in `scope["state"]`: seconds that a request has waited in a front, which its deadline includes."""


class Received(NamedTuple, Generic[Schema]):
    """A request that may be served.

    Attributes:
        body: Its fields.
        client: Whose it is: `key:OWNER` or `address:HOST`.
        texts: Its texts, in order.
        fields: Where each text stands in the request: `q`, or `q[0]`, `q[1]` and so on.
        deadline: When it must be answered, seconds of the monotonic clock.
    """

    body: Schema
    client: str
    texts: tuple[str, ...]
    fields: tuple[str, ...]
    deadline: float


def context_of(request: Request) -> Context:
    """Returns what the application shares."""
    # As an attribute, it would be found by way of an exception.
    return cast(Context, request.scope["app"].state["context"])


def client_of(request: Request, context: Context, values: Values | None = None) -> str:
    """Returns the client that a request's key names, else its address.

    Raises:
        AccessDeniedError: If it carries no valid key, and one is needed.
        UnavailableError: If keys cannot be checked.
    """
    key = key_in(header_of(request.scope, b"authorization")) or (values or {}).get("api_key")
    return context.keys.client_of(key if isinstance(key, str) else None, _address(request))


async def receive(
    request: Request,
    schema: type[Schema],
    *,
    texts_field: str = "q",
    max_items: int | None = None,
    takes_query: bool = False,
    size_limit: str = "max_body_bytes",
    prepare: Callable[[Values], Values] = dict,
) -> Received[Schema]:
    """Read and check a request of a client that may ask, and does not ask too often.

    The key is checked before the fields, so that a wrong key always gets the same answer.

    Args:
        request: Its body has not been read.
        schema: What its fields must be.
        texts_field: The field that holds its text or texts; empty if it has none.
        max_items: Highest number of texts; MAX_ITEMS by default.
        takes_query: Whether the query may stand for an empty body.
        size_limit: The setting that says how many bytes the body may have.
        prepare: Is applied to the fields before the schema.

    Raises:
        UnavailableError: If there is no capacity for it.
        AccessDeniedError: If the client has no valid key.
        RateExceededError: If the client asks too often.
        RequestError: If the body cannot be read, or a field is not as the schema says.
        TextTooLongError: If a text is over its limit.
    """
    context = context_of(request)
    max_items = max_items or context.settings.max_items
    body, client = await admit_and_read(
        request, context, max_items, takes_query=takes_query, size_limit=size_limit
    )
    context.rates.charge(client)
    context.keys.count(owner_of(client))
    # Before the schema looks at each of the texts, of which there may be a hundred thousand.
    given = body.values.get(texts_field) if texts_field else None
    if isinstance(given, list) and schema.model_fields[texts_field].annotation is not str:
        require_count(texts_field, len(given), max_items)
    if body.size and request.scope["query_string"]:
        _check_query(schema, request.scope["query_string"], max_items)
    checked = validate(schema, prepare(body.values), is_form=body.is_form)
    named_texts = texts_of(getattr(checked, texts_field), texts_field) if texts_field else []
    check_lengths(named_texts, context.settings.max_chars)
    fields, texts = zip(*named_texts, strict=True) if named_texts else ((), ())
    deadline = deadline_of(getattr(checked, "timeout_ms", None), context.settings)
    deadline -= request.scope["state"].get(WAITED, 0.0)
    return Received(body=checked, client=client, texts=texts, fields=fields, deadline=deadline)


async def admit_and_read(
    request: Request,
    context: Context,
    max_items: int,
    *,
    takes_query: bool = False,
    size_limit: str = "max_body_bytes",
) -> tuple[Body, str]:
    """Admit a request unless its connection has, read its body, and find its client.

    Returns:
        The body, and the client that the head or a field of the body names.

    Raises:
        UnavailableError: If there is no capacity for it.
        AccessDeniedError: If the client has no valid key. If the body holds no fields, its head must have it.
        RequestError: If the body cannot be read.
    """
    max_bytes = getattr(context.settings, size_limit)
    state = request.scope["state"]
    if PERMIT not in state:
        size = _largest_size(request, max_bytes)
        authorization = header_of(request.scope, b"authorization")
        client = context.keys.client_by_head(authorization, _address(request))
        state[PERMIT] = context.gate.admit(client, size)
    try:
        body = await read_body(
            request,
            max_bytes=max_bytes,
            limit_name=size_limit.upper(),
            max_items=max_items,
            takes_query=takes_query,
        )
    except RequestError as refusal:
        # The part of a body that was not read may still hold a key.
        if refusal.code != "body_too_large":
            client_of(request, context)
        raise
    client = client_of(request, context, body.values)
    state[PERMIT].assign(client, body.size)
    return body, client


def _address(request: Request) -> str:
    client = request.scope.get("client")
    return cast(str, client[0]) if client else "unknown"


def _largest_size(request: Request, most: int) -> int:
    """Returns the bytes that a body has at most; a body that declares more than `most` is refused unread."""
    declared = header_of(request.scope, b"content-length")
    return min(int(declared), most) if declared.isdecimal() else most


def validate(schema: type[Schema], values: Values, *, is_form: bool) -> Schema:
    """Check values against a schema; in a form, numbers are written as text.

    Raises:
        RequestError: Naming the first field that is unknown, else that is missing, of another type or out of
            range.
    """
    try:
        return schema.model_validate(values, strict=not is_form)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False)
        # A field that is missing may be the one that is misspelt.
        for each in errors:
            if each["type"] == "extra_forbidden":
                raise _unknown_field(schema, each["loc"]) from None
        first = errors[0]
        field = _path(first["loc"])
        # A key with a lone surrogate has no name.
        named = f"`{field}`: " if field else ""
        raise RequestError("invalid_field", named + _reason(first), field) from None


def _check_query(schema: type[BaseModel], query: bytes, max_items: int) -> None:
    """Refuse a query that holds what is no field, which a request with a body would ignore.

    Raises:
        RequestError: Naming the field.
    """
    for name in parse_form(query, max_items):
        if name not in schema.model_fields:
            raise _unknown_field(schema, [name])


def _unknown_field(schema: type[BaseModel], location: Sequence[int | str]) -> RequestError:
    """Names the field if its name is plain, and the valid field that is spelt most like it."""
    *places, name = map(str, location)
    fields: Mapping[str, object] = schema.model_fields
    for place in places:
        fields = getattr(getattr(fields.get(place), "annotation", None), "model_fields", {})
    within = _path(location[:-1])
    holder = f"`{within}`" if within else "the request"
    if _PLAIN_NAME.fullmatch(name) is None:
        return RequestError("unknown_field", f"{holder} holds an unknown field", within)
    nearest = ["q"] if name in _NAMES_OF_Q and "q" in fields else get_close_matches(name, fields, n=1)
    hint = f"; did you mean `{nearest[0]}`?" if nearest else ""
    return RequestError("unknown_field", f"{holder} has no field `{name}`{hint}", _path(location))


def _reason(error: ErrorDetails) -> str:
    kind, value = error["type"], error["input"]
    if kind == "string_type" and error["loc"][1:] == _SHAPES[:1]:
        items = "objects with `source` and `target`" if error["loc"][0] == "glossary" else "strings"
        return f"input should be a string or a list of {items}"
    reason = _REASONS.get(kind, error["msg"][:1].lower() + error["msg"][1:])
    reason = reason.partition(" after validation")[0]
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
