"""⑨ Every error as HTTP: which status, which code, and one body for all of them."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from app.errors import (
    ClientGoneError,
    DeadlinePassedError,
    DrainingError,
    EngineStuckError,
    HouseFullError,
    KeyInvalidError,
    KeyMissingError,
    KeysUnreadableError,
    NotReadyError,
    OutOfMemoryError,
    QueueFullError,
    RateExceededError,
    ServiceError,
    UnavailableError,
)
from app.telemetry.metrics import Metrics
from model.errors import (
    ConfigError,
    InputError,
    TextTooLongError,
    TranslationError,
    UnsupportedLanguageError,
)

logger = logging.getLogger(__name__)


class ErrorBody(BaseModel):
    """What every error looks like."""

    error: str = Field(description="A sentence that a person can act on")
    code: str = Field(description="The same for programs", examples=["text_too_long"])
    field: str | None = Field(default=None, description="Where in the request", examples=["q[3]"])
    request_id: str = Field(description="As in the X-Request-ID header and in the log")
    message: str | None = Field(default=None, description="`error` once more, where DeepL's clients look")


class RequestError(Exception):
    """A request that is refused with a status.

    Args:
        status: HTTP status.
        code: For programs; one of a fixed set, it becomes a metric label.
        message: For people; never holds what the client sent.
        field: Where in the request.
        headers: To be sent along.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.field = field
        self.headers = dict(headers or {})


# nginx's number for it; no client sees this answer, but it is counted among the requests.
CLIENT_GONE = 499

# The first entry that an error is an instance of decides, so children stand before parents.
_STATUSES: tuple[tuple[type[Exception], int, str], ...] = (
    (UnsupportedLanguageError, 400, "unsupported_language"),
    (TextTooLongError, 413, "text_too_long"),
    (InputError, 400, "unsupported_request"),
    (ConfigError, 422, "invalid_decoding"),
    (KeyMissingError, 401, "key_missing"),
    (KeyInvalidError, 403, "key_invalid"),
    (RateExceededError, 429, "rate_limited"),
    (NotReadyError, 503, "loading"),
    (DrainingError, 503, "draining"),
    (EngineStuckError, 503, "engine_stuck"),
    (HouseFullError, 503, "house_full"),
    (QueueFullError, 503, "queue_full"),
    (OutOfMemoryError, 503, "out_of_memory"),
    (KeysUnreadableError, 503, "keys_unreadable"),
    (DeadlinePassedError, 504, "deadline_passed"),
    (ClientGoneError, CLIENT_GONE, "client_gone"),
)
_DEEPLS_PATHS = ("/v2/", "/v3/")
# What Starlette's router refuses, in our words.
_ROUTING = {
    404: ("not_found", "there is no such path; /docs lists those there are"),
    405: ("method_not_allowed", "this path does not take this method; /docs lists those it takes"),
}


def as_request_error(error: Exception) -> RequestError:
    """The refusal that an error of the service or the core means; a fault of ours if it means none."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, MemoryError):
        error = OutOfMemoryError()
    if isinstance(error, HTTPException):
        code, message = _ROUTING.get(error.status_code, ("http_error", error.detail))
        return RequestError(error.status_code, code, message, headers=error.headers)
    for kind, status, code in _STATUSES:
        if isinstance(error, kind):
            return RequestError(status, code, _message(error), _field(error), _headers(error))
    return RequestError(500, "internal_error", "something went wrong on our side; the request id finds it")


def _message(error: Exception) -> str:
    """Its own sentence, or one that leaves out the value it names: answers never echo a request."""
    if isinstance(error, UnsupportedLanguageError):
        return f"`{error.field}` must be one of {', '.join(error.allowed)}"
    if isinstance(error, ConfigError):
        return f"`{_field(error)}` must be {error.requirement}"
    return str(error)


def _field(error: Exception) -> str | None:
    if isinstance(error, ConfigError):
        return f"decoding.{error.field}"
    return error.field if isinstance(error, InputError) else None


def _headers(error: Exception) -> dict[str, str]:
    if isinstance(error, (UnavailableError, RateExceededError)):
        return {"Retry-After": str(error.retry_after)}
    return {"WWW-Authenticate": "Bearer"} if isinstance(error, KeyMissingError) else {}


def respond(error: Exception, request: Request) -> JSONResponse:
    """The answer to a request that failed; it is counted, and logged if the fault is ours."""
    refusal = as_request_error(error)
    if refusal.status == 500:
        logger.error("request failed", exc_info=error)
    elif refusal.status != CLIENT_GONE:
        request.app.state.context.metrics.rejected.labels(refusal.code).inc()
    is_deepls = request.scope["path"].startswith(_DEEPLS_PATHS)
    body = ErrorBody(
        error=str(refusal),
        code=refusal.code,
        field=refusal.field,
        request_id=request.state.request_id,
        message=str(refusal) if is_deepls else None,
    )
    # DeepL's clients know no 422.
    status = 400 if is_deepls and refusal.status == 422 else refusal.status
    return JSONResponse(body.model_dump(exclude_none=True), status, refusal.headers)


async def _handle(request: Request, error: Exception) -> JSONResponse:
    return respond(error, request)


def install(app: FastAPI, metrics: Metrics, routes: Iterable[APIRoute]) -> None:
    """Give every error that a route may raise its answer, and its place in the metrics.

    Args:
        app: What they are raised in.
        metrics: Where they are counted.
        routes: All of ours.
    """
    methods: dict[str, set[str]] = defaultdict(set)
    for route in routes:
        methods[route.path] |= route.methods or set()

    async def handle_routing(request: Request, error: Exception) -> JSONResponse:
        response = respond(error, request)
        allowed = methods.get(request.scope["path"])
        if allowed and "Allow" in response.headers:
            # The router names only those of the first route that has this path.
            response.headers["Allow"] = ", ".join(sorted(allowed))
        return response

    metrics.expect_rejections(code for _, status, code in _STATUSES if status != CLIENT_GONE)
    for kind in (RequestError, ServiceError, TranslationError, MemoryError):
        app.add_exception_handler(kind, _handle)
    app.add_exception_handler(HTTPException, handle_routing)
