"""① What routes need before they can answer: values of an admitted client, and a client still there."""

import asyncio
from collections.abc import Coroutine
from typing import Annotated, NamedTuple, TypeVar, cast

from fastapi import Depends, Request

from app.api.body import Body, read_body
from app.api.errors import RequestError
from app.api.strict_json import Values
from app.context import Context
from app.errors import AccessDeniedError, ClientGoneError, DeadlinePassedError, KeysUnreadableError
from app.translation.drafts import Drafts
from app.translation.order import Answer, Order

Result = TypeVar("Result")

# The second is what DeepL's clients call theirs.
_SCHEMES = ("bearer", "deepl-auth-key")


async def get_context(request: Request) -> Context:
    """What the application shares; not a plain function, which FastAPI would send to a thread."""
    return context_of(request)


class Admitted(NamedTuple):
    """A request that may be served: its body, and whose it is."""

    body: Body
    client: str


ContextOf = Annotated[Context, Depends(get_context)]


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


async def translated(context: Context, order: Order, drafts: Drafts | None = None) -> list[Answer]:
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


def key_in(authorization: str) -> str | None:
    """The key that such a header carries, if it does."""
    scheme, _, credentials = authorization.partition(" ")
    return credentials.strip() or None if scheme.lower() in _SCHEMES else None


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
