"""① Limits of what comes before a body; h11 enforces its own only while the head is incomplete."""

from starlette.types import Scope

from app.api.errors import RequestError

MAX_HEAD_BYTES = 16 * 1024
_MAX_TARGET_BYTES = 8 * 1024
_MAX_HEADERS = 100


def check_head(scope: Scope) -> None:
    """Refuse a request line or header fields out of all proportion.

    Raises:
        RequestError: Naming the limit.
    """
    if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > _MAX_TARGET_BYTES:
        raise RequestError(414, "target_too_long", f"the path must have at most {_MAX_TARGET_BYTES} bytes")
    headers = scope["headers"]
    if len(headers) > _MAX_HEADERS or sum(len(name) + len(value) for name, value in headers) > MAX_HEAD_BYTES:
        message = f"at most {_MAX_HEADERS} header fields and {MAX_HEAD_BYTES} bytes of them are read"
        raise RequestError(431, "head_too_large", message)
