"""⑨ Every error code, with the status that says the same more coarsely.

Programs tell errors apart by codes, and they are a label of the metrics: a closed set. What each means
to a client is in `docs/http-api.md`.
"""

from collections.abc import Mapping
from typing import Final

CLIENT_GONE: Final = 499
"""nginx's number for it; no client sees this answer, but it is counted among the requests."""

STATUSES: Final[Mapping[str, int]] = {
    # The connection: what is no request, or never becomes a whole one.
    "malformed_request": 400,
    "request_too_slow": 408,
    "too_many_chunks": 413,
    "target_too_long": 414,
    "head_too_large": 431,
    "too_many_connections": 503,
    "unsupported_version": 505,
    # The path, the page it is asked from, and whose request it is.
    "not_found": 404,
    "method_not_allowed": 405,
    "cross_origin_refused": 400,
    "key_missing": 401,
    "key_invalid": 403,
    "keys_unreadable": 503,
    "rate_limited": 429,
    # The body.
    "unsupported_encoding": 415,
    "unsupported_media_type": 415,
    "unsupported_charset": 415,
    "invalid_utf8": 400,
    "body_too_large": 413,
    "invalid_body": 422,
    # What it asks for.
    "unknown_field": 422,
    "invalid_field": 422,
    "invalid_decoding": 422,
    "too_many_items": 413,
    "text_too_long": 413,
    "unsupported_language": 400,
    "unsupported_request": 400,
    # Whether that can be done now.
    "loading": 503,
    "draining": 503,
    "house_full": 503,
    "queue_full": 503,
    "engine_stuck": 503,
    "out_of_memory": 503,
    "deadline_passed": 504,
    "internal_error": 500,
    "client_gone": CLIENT_GONE,
}

REFUSALS: Final = STATUSES.keys() - {"internal_error", "client_gone"}
"""What `rejected_total` counts."""
