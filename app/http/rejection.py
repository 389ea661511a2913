"""⑨ The answers of a connection: to bytes that are no request, and to requests that it rejects."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from app.errors import UnavailableError

_REASONS: Final = {
    400: ("malformed_request", "this is not an HTTP/1.1 request"),
    405: ("method_not_allowed", "this method is not known; /docs lists the paths and their methods"),
    408: ("request_too_slow", "the request came too slowly"),
    413: ("too_many_chunks", "the body came in too many chunks; send larger ones"),
    414: ("target_too_long", "the path and query are too long; at most 8 KiB are read"),
    431: ("head_too_large", "the head has too many or too long fields; at most 100 and 16 KiB are read"),
    503: ("too_many_connections", "too many connections are open; try again in a second"),
    505: ("unsupported_version", "only HTTP/1.1 and HTTP/1.0 are spoken here"),
}
_FIELDS: Final = {405: {"Allow": "GET, HEAD, POST"}, 503: {"Retry-After": "1"}}
WIRE_STATUS: Final = "wire_status"
"""Where a request's `scope["state"]` holds the status with which its connection ended it before the
application answered. A rejection that ends no such request is counted by `Metrics.count_early_rejection`."""


def code_of(status: int) -> str:
    """The error code of a rejection, which is also a metric label."""
    return _REASONS[status][0]


def rejection(status: int, request_id: str) -> bytes:
    """Head and body of an answer that ends the connection; it repeats nothing of what the client sent."""
    code, error = _REASONS[status]
    body = {"error": error, "code": code, "request_id": request_id}
    return _answer(status, body, {"Connection": "close"} | _FIELDS.get(status, {}))


def overloaded(error: UnavailableError, request_id: str, *, ends: bool) -> bytes:
    """Head and body of the answer to a request that is rejected at its head.

    Args:
        error: Says when to try again.
        request_id: The client's, if it is plain, else a new one.
        ends: Whether the connection ends with the answer.
    """
    # DeepL's clients read `message`.
    body = {"error": str(error), "code": "overloaded", "request_id": request_id, "message": str(error)}
    ending = {"Connection": "close"} if ends else {}
    return _answer(503, body, {"Retry-After": str(error.retry_after)} | ending)


def _answer(status: int, content: Mapping[str, str], special: Mapping[str, str]) -> bytes:
    body = json.dumps(content)
    fields = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "X-Content-Type-Options": "nosniff",
        "X-Request-ID": content["request_id"],
        **special,
    }
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        *(f"{name}: {fields[name]}" for name in fields),
    ]
    return "\r\n".join([*lines, "", body]).encode("ascii")
