"""① A request as routes receive it: read once, its client identified, its values checked against a schema."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import NamedTuple, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request

from app.admission.keys import key_in
from app.errors import AccessDeniedError, ClientGoneError, DeadlinePassedError, KeysUnreadableError
from app.http.body import LONGEST_NUMBER, Body, Values, read_body, require_room
from app.http.errors import RequestError
from app.lifecycle.context import Context
from app.settings import Settings
from app.translation.partial_results import PartialResults
from app.translation.request import Answer, TranslationRequest
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


Result = TypeVar("Result")


class Admitted(NamedTuple):
    """A request that may be served: its body, and whose it is."""

    body: Body
    client: str


def context_of(request: Request) -> Context:
    """What the application shares."""
    return cast(Context, request.app.state.context)


async def admit(
    request: Request, context: Context, most_texts: int | None = None, *, takes_query: bool = False
) -> Admitted:
    """The body of a client that may ask, and not too often.

    The key is looked at before the fields, so that a wrong one always gets the same answer; where the body
    cannot be made fields of, its head must have the key.

    Args:
        request: Whose body has not been read.
        context: What the application shares.
        most_texts: How many it may hold, if not MAX_ITEMS.
        takes_query: Whether the query stands for a body that is empty.

    Raises:
        UnavailableError: While there is no room.
        RequestError: If the body cannot be read.
        AccessDeniedError: If the client has no valid key.
        RateExceededError: If it asked too often.
    """
    max_bytes, max_items = context.settings.max_body_bytes, most_texts or context.settings.max_items
    with context.admission.reading(_known_client(request, context), _size(request, max_bytes)):
        try:
            body = await read_body(request, max_bytes=max_bytes, max_items=max_items, takes_query=takes_query)
        except RequestError as refusal:
            # What is not read to its end may still hold a key.
            if refusal.code != "body_too_large":
                client_of(request, context)
            raise
    client = _client(request, context, _key(request, body.values))
    context.rates.charge(client)
    context.keys.count(client.removeprefix("key:"))
    return Admitted(body, client)


async def translated(
    context: Context, order: TranslationRequest, drafts: PartialResults | None = None
) -> list[Answer]:
    """The answers to an order, which has its turn in the house until it is answered, or its deadline passes.

    Raises:
        ServiceError: If there is no room for it, or it is too late.
        TranslationError: If it cannot be served.
    """
    try:
        async with context.admission.turn(order.client, order.deadline, sum(map(len, order.texts))):
            async with asyncio.timeout_at(order.deadline):
                return await context.service.translate(order, drafts)
    except TimeoutError:
        raise DeadlinePassedError from None


def _size(request: Request, most: int) -> int:
    """Bytes that a body will have at most; what says that it has more is refused unread."""
    declared = request.headers.get("content-length", "")
    return min(int(declared), most) if declared.isdecimal() else most


def client_of(request: Request, context: Context) -> str:
    """Whose a request is, by its head alone.

    Raises:
        AccessDeniedError: If it carries no valid key, and one is needed.
        UnavailableError: If keys cannot be checked.
    """
    return _client(request, context, _key(request, {}))


def _known_client(request: Request, context: Context) -> str | None:
    """Whose a request is, if its head tells; a wrong key is refused in its place, after the body."""
    try:
        return client_of(request, context)
    except (AccessDeniedError, KeysUnreadableError):
        return None


def _client(request: Request, context: Context, key: str | None) -> str:
    owner = context.keys.identify(key)
    if owner is not None:
        return f"key:{owner}"
    return f"address:{request.client.host if request.client else 'unknown'}"


def _key(request: Request, values: Values) -> str | None:
    key = key_in(request.headers.get("authorization", "")) or values.get("api_key")
    return key if isinstance(key, str) else None


async def while_connected(request: Request, work: Coroutine[object, object, Result]) -> Result:
    """Do work for a client, and drop it as soon as the client has left.

    Args:
        request: Whose body has been read.
        work: What to do.

    Raises:
        ClientGoneError: If the client left first.
    """
    patience = asyncio.timeout(None)
    departure = asyncio.create_task(_await_departure(request, patience))
    try:
        async with patience:
            return await work
    except TimeoutError:
        if patience.expired():
            raise ClientGoneError from None
        raise
    finally:
        departure.cancel()


async def _await_departure(request: Request, patience: asyncio.Timeout) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    patience.reschedule(0)
