"""⑨ Every error as HTTP: its code, its status, and one body for all of them.

Codes are a closed set, by which programs tell errors apart; they are also a label of the metrics.
`docs/http-api.md` describes each of them.
"""

import json
import logging
from collections.abc import Mapping
from errno import EDQUOT, ENOSPC
from http import HTTPStatus
from typing import Final

from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from app.errors import (
    ClientGoneError,
    DeadlinePassedError,
    DrainingError,
    EngineStuckError,
    KeyInvalidError,
    KeyMissingError,
    KeysUnreadableError,
    ModelUnavailableError,
    NotReadyError,
    OutOfMemoryError,
    OverloadedError,
    QueueFullError,
    RateExceededError,
    UnavailableError,
)
from model.errors import (
    ConfigError,
    InputError,
    TextTooLongError,
    UnsupportedLanguageError,
)
from model.text.formats.file_text import FileError

CLIENT_GONE: Final = 499
"""The status that nginx uses; no client gets this answer, but it is counted in the metrics."""
WIRE_STATUS: Final = "wire_status"
"""Key in `scope["state"]`: the status with which the connection ended a request before the application
answered. A rejection that ends no such request is counted by `Metrics.count_early_rejection`."""

STATUSES: Final[Mapping[str, int]] = {
    # The connection: bytes that are no request, or no complete one.
    "malformed_request": 400,
    "request_too_slow": 408,
    "too_many_chunks": 413,
    "target_too_long": 414,
    "head_too_large": 431,
    "too_many_connections": 503,
    "unsupported_version": 505,
    # The path, the origin of the page, and the client.
    "not_found": 404,
    "method_not_allowed": 405,
    "cross_origin_refused": 400,
    "key_missing": 401,
    "key_invalid": 403,
    "keys_unreadable": 503,
    "rate_limited": 429,
    "suggestions_disabled": 403,
    # The body.
    "unsupported_encoding": 415,
    "unsupported_media_type": 415,
    "unsupported_charset": 415,
    "invalid_utf8": 400,
    "body_too_large": 413,
    "invalid_body": 422,
    # The fields.
    "unknown_field": 422,
    "invalid_field": 422,
    "invalid_decoding": 422,
    "too_many_items": 413,
    "text_too_long": 413,
    "unsupported_language": 400,
    "unsupported_request": 400,
    "unsupported_file": 400,
    "file_not_ready": 503,
    # The state of the service.
    "loading": 503,
    "draining": 503,
    "overloaded": 503,
    "queue_full": 503,
    "engine_stuck": 503,
    "model_unavailable": 503,
    "out_of_memory": 503,
    "deadline_passed": 504,
    "internal_error": 500,
    "client_gone": CLIENT_GONE,
}

REFUSALS: Final = STATUSES.keys() - {"internal_error", "client_gone"}
"""The codes that `rejected_total` counts."""

logger = logging.getLogger(__name__)

# The first matching class decides, so subclasses stand before their bases.
_CODES: tuple[tuple[type[Exception], str], ...] = (
    (UnsupportedLanguageError, "unsupported_language"),
    (TextTooLongError, "text_too_long"),
    (FileError, "unsupported_file"),
    (InputError, "unsupported_request"),
    (ConfigError, "invalid_decoding"),
    (KeyMissingError, "key_missing"),
    (KeyInvalidError, "key_invalid"),
    (RateExceededError, "rate_limited"),
    (NotReadyError, "loading"),
    (DrainingError, "draining"),
    (EngineStuckError, "engine_stuck"),
    (OverloadedError, "overloaded"),
    (QueueFullError, "queue_full"),
    (ModelUnavailableError, "model_unavailable"),
    (OutOfMemoryError, "out_of_memory"),
    (KeysUnreadableError, "keys_unreadable"),
    (DeadlinePassedError, "deadline_passed"),
    (ClientGoneError, "client_gone"),
)
_DISK_SECONDS: Final = 60
_DEEPL_PATHS = ("/v2/", "/v3/")
# Replaces the messages of Starlette's router.
_ROUTING = {
    404: ("not_found", "there is no such path; /docs lists those there are"),
    405: ("method_not_allowed", "this path does not take this method; /docs lists those it takes"),
}
# The answers of a connection: to bytes that are no request, and to requests that it rejects.
_WIRE_REASONS: Final = {
    400: ("malformed_request", "this is not an HTTP/1.1 request"),
    405: ("method_not_allowed", "this method is not known; /docs lists the paths and their methods"),
    408: ("request_too_slow", "the request came too slowly"),
    413: ("too_many_chunks", "the body came in too many chunks; send larger ones"),
    414: ("target_too_long", "the path and query are too long; at most 8 KiB are read"),
    431: ("head_too_large", "the head has too many or too long fields; at most 100 and 16 KiB are read"),
    503: ("too_many_connections", "too many connections are open; try again in a second"),
    505: ("unsupported_version", "only HTTP/1.1 and HTTP/1.0 are spoken here"),
}
_WIRE_FIELDS: Final = {405: {"Allow": "GET, HEAD, POST"}, 503: {"Retry-After": "1"}}


class ErrorBody(BaseModel):
    """What every error looks like."""

    error: str = Field(description="A sentence that a person can act on")
    code: str = Field(description="The same for programs", examples=["text_too_long"])
    field: str | None = Field(default=None, description="Where in the request", examples=["q[3]"])
    request_id: str = Field(description="As in the X-Request-ID header and in the log")
    message: str | None = Field(default=None, description="`error` once more, where DeepL's clients look")


class RequestError(Exception):
    """A request that is refused.

    Args:
        code: A key of STATUSES, which has its status.
        message: For people; of what the client sent it repeats only numbers and plain names of fields.
        field: Where in the request.
        headers: Header fields of the answer.
    """

    def __init__(
        self,
        code: str,
        message: str,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = STATUSES[code]
        self.code = code
        self.field = field
        self.headers = dict(headers or {})


def as_request_error(error: Exception) -> RequestError:
    """Returns the refusal for an error of the service or the core; for any other error an internal error."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, MemoryError):
        error = OutOfMemoryError()
    if _is_disk_full(error):
        reason = f"there is no space left to store this; try again in {_DISK_SECONDS} s"
        return RequestError("overloaded", reason, headers={"Retry-After": str(_DISK_SECONDS)})
    if isinstance(error, HTTPException) and error.status_code in _ROUTING:
        methods = (error.headers or {}).get("Allow")
        allow = {"Allow": ", ".join(sorted(methods.split(", ")))} if methods else {}
        return RequestError(*_ROUTING[error.status_code], headers=allow)
    for kind, code in _CODES:
        if isinstance(error, kind):
            return RequestError(code, _message(error), _field(error), _headers(error))
    return RequestError("internal_error", "something went wrong on our side; the request id finds it")


def _is_disk_full(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT)


def _message(error: Exception) -> str:
    """Returns the error's message without values that the client sent, except numbers."""
    if type(error) is UnsupportedLanguageError:
        return f"`{error.field}` must be one of {', '.join(error.allowed)}"
    if isinstance(error, ConfigError):
        value = f", but is {error.value} instead" if isinstance(error.value, (int, float)) else ""
        return f"`{_field(error)}` must be {error.requirement}{value}"
    return str(error)


def _field(error: Exception) -> str | None:
    if isinstance(error, ConfigError):
        return f"decoding.{error.field}"
    return error.field if isinstance(error, InputError) else None


def _headers(error: Exception) -> dict[str, str]:
    if isinstance(error, (UnavailableError, RateExceededError)):
        return {"Retry-After": str(error.retry_after)}
    return {"WWW-Authenticate": "Bearer"} if isinstance(error, KeyMissingError) else {}


def error_response(error: Exception, request: Request) -> JSONResponse:
    """Returns the answer to a request that failed; counts it, and logs it if the service is at fault."""
    is_deepl = request.scope["path"].startswith(_DEEPL_PATHS)
    if is_deepl and isinstance(error, KeyMissingError):
        error = KeyMissingError("`Authorization: DeepL-Auth-Key KEY`")
    refusal = as_request_error(error)
    if refusal.status == 500 or _is_disk_full(error):
        logger.error("request failed", exc_info=error)
    if refusal.code in REFUSALS:
        request.app.state.context.metrics.count_rejection(refusal.code)
    body = ErrorBody(
        error=str(refusal),
        code=refusal.code,
        field=refusal.field,
        request_id=request.state.request_id,
        message=str(refusal) if is_deepl else None,
    )
    # DeepL's clients do not know 422.
    status = 400 if is_deepl and refusal.status == 422 else refusal.status
    return JSONResponse(body.model_dump(exclude_none=True), status, refusal.headers)


async def not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request for a path that the service does not have."""
    await error_response(HTTPException(404), Request(scope, receive))(scope, receive, send)


def wire_code(status: int) -> str:
    """Returns the error code of an answer that ends the connection, which is also a metric label."""
    return _WIRE_REASONS[status][0]


def wire_rejection(status: int, request_id: str) -> bytes:
    """Returns an answer that ends the connection; it repeats nothing of what the client sent."""
    code, error = _WIRE_REASONS[status]
    body = {"error": error, "code": code, "request_id": request_id}
    return _wire_answer(status, body, {"Connection": "close"} | _WIRE_FIELDS.get(status, {}))


def overload_rejection(error: UnavailableError, request_id: str, *, ends: bool) -> bytes:
    """Returns the answer to a request that is rejected at its head.

    Args:
        error: Says when to try again.
        request_id: The client's, if it is plain, else a new one.
        ends: Whether the connection ends with the answer.
    """
    # DeepL's clients read `message`.
    body = {"error": str(error), "code": "overloaded", "request_id": request_id, "message": str(error)}
    ending = {"Connection": "close"} if ends else {}
    return _wire_answer(503, body, {"Retry-After": str(error.retry_after)} | ending)


def _wire_answer(status: int, content: Mapping[str, str], more_headers: Mapping[str, str]) -> bytes:
    """Returns head and body of an answer as bytes."""
    body = json.dumps(content)
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "X-Content-Type-Options": "nosniff",
        "X-Request-ID": content["request_id"],
        **more_headers,
    }
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", body]).encode("ascii")
