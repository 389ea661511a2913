"""① What routes need before they can answer: values of an admitted client, and a client still there."""

import asyncio
from collections.abc import Coroutine
from typing import Annotated, NamedTuple, TypeVar, cast

from fastapi import Depends, Request

from app.api.body import Values, read_values
from app.context import Context
from app.errors import ClientGoneError

Result = TypeVar("Result")


async def get_context(request: Request) -> Context:
    """What the application shares; not a plain function, which FastAPI would send to a thread."""
    return context_of(request)


class Admitted(NamedTuple):
    """A request that may be served: the fields of its body, and whose it is."""

    values: Values
    client: str


ContextOf = Annotated[Context, Depends(get_context)]


def context_of(request: Request) -> Context:
    """What the application shares."""
    return cast(Context, request.app.state.context)


async def admit(request: Request, context: Context) -> Admitted:
    """The body of a client that may ask, and not too often.

    Whether the service takes work is decided first: what came before it began to drain is served.
    The key is looked at before the fields, so that a wrong one always gets the same answer.

    Raises:
        UnavailableError: While the service loads, and once it drains.
        RequestError: If the body cannot be read.
        AccessDeniedError: If the client has no valid key.
        RateExceededError: If it asked too often.
    """
    context.lifecycle.require_ready()
    settings = context.settings
    values = await read_values(request, max_bytes=settings.max_body_bytes, max_items=settings.max_items)
    owner = context.keys.identify(_key(request, values))
    address = request.client.host if request.client else "unknown"
    client = f"key:{owner}" if owner is not None else f"address:{address}"
    await context.rates.charge(client)
    return Admitted(values, client)


def _key(request: Request, values: Values) -> str | None:
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and credentials.strip():
        return credentials.strip()
    key = values.get("api_key")
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
