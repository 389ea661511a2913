"""① A request with a body, read once: its permit, its fields, its client, and their checks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, cast

from starlette.requests import Request

from app.admission.gate import PERMIT
from app.admission.keys import key_in
from app.errors import AccessDeniedError, KeysUnreadableError
from app.http.body import Body, Values, check_count, read_body
from app.http.errors import RequestError
from app.http.validation import Schema, check_lengths, deadline_of, texts_of, validate
from app.lifecycle.context import Context

WAITED: Final = "waited"
"""Where `scope["state"]` holds the seconds of its deadline that a request has waited elsewhere."""


@dataclass(frozen=True, kw_only=True)
class Received(Generic[Schema]):
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
    return cast(Context, request.app.state.context)


def client_of(request: Request, context: Context, values: Values | None = None) -> str:
    """Returns the client that a request's key names, else its address.

    Raises:
        AccessDeniedError: If it carries no valid key, and one is needed.
        UnavailableError: If keys cannot be checked.
    """
    key = key_in(request.headers.get("authorization", "")) or (values or {}).get("api_key")
    return context.keys.client_of(key if isinstance(key, str) else None, _address(request))


async def receive(
    request: Request,
    schema: type[Schema],
    *,
    texts: str = "q",
    max_items: int | None = None,
    takes_query: bool = False,
    limit: str = "max_body_bytes",
    prepare: Callable[[Values], Values] = dict,
) -> Received[Schema]:
    """Read and check a request of a client that may ask, and does not ask too often.

    The key is checked before the fields, so that a wrong key always gets the same answer.

    Args:
        request: Its body has not been read.
        schema: What its fields must be.
        texts: The field that holds its text or texts; empty if it has none.
        max_items: Highest number of texts; MAX_ITEMS by default.
        takes_query: Whether the query may stand for an empty body.
        limit: The setting that says how many bytes the body may have.
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
    body, client = await read_fields(request, context, max_items, takes_query=takes_query, limit=limit)
    context.rates.charge(client)
    context.keys.count(client.removeprefix("key:"))
    if texts and schema.model_fields[texts].annotation is not str:
        check_count(body.values.get(texts), texts, max_items)
    checked = validate(schema, prepare(body.values), is_form=body.is_form)
    found = texts_of(getattr(checked, texts), texts) if texts else []
    check_lengths(found, context.settings.max_chars)
    fields, contents = zip(*found, strict=True) if found else ((), ())
    deadline = deadline_of(getattr(checked, "timeout_ms", None), context.settings)
    deadline -= request.scope["state"].get(WAITED, 0.0)
    return Received(body=checked, client=client, texts=contents, fields=fields, deadline=deadline)


async def read_fields(
    request: Request,
    context: Context,
    max_items: int,
    *,
    takes_query: bool = False,
    limit: str = "max_body_bytes",
) -> tuple[Body, str]:
    """Read the body of a request that holds a permit, and tell whose it is.

    Raises:
        UnavailableError: If there is no capacity for it.
        AccessDeniedError: If the client has no valid key. If the body holds no fields, its head must have it.
        RequestError: If the body cannot be read.
    """
    max_bytes = getattr(context.settings, limit)
    state = request.scope["state"]
    if PERMIT not in state:
        size = _size(request, max_bytes)
        state[PERMIT] = context.gate.admit(_client_by_head(request, context), size)
    try:
        body = await read_body(
            request, max_bytes=max_bytes, max_items=max_items, takes_query=takes_query, limit=limit.upper()
        )
    except RequestError as refusal:
        # The part of a body that was not read may still hold a key.
        if refusal.code != "body_too_large":
            client_of(request, context)
        raise
    client = client_of(request, context, body.values)
    state[PERMIT].assign(client, body.size)
    return body, client


def _client_by_head(request: Request, context: Context) -> str:
    try:
        return client_of(request, context)
    except (AccessDeniedError, KeysUnreadableError):
        return f"address:{_address(request)}"


def _address(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def _size(request: Request, most: int) -> int:
    """Returns the bytes that a body has at most; a body that declares more is refused unread."""
    declared = request.headers.get("content-length", "")
    return min(int(declared), most) if declared.isdecimal() else most
