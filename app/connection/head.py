"""① What llhttp lets through in a head: what is over a limit, or what a proxy may read otherwise."""

import re
from collections.abc import Sequence
from typing import Final

MAX_HEAD_BYTES: Final = 16 * 1024
MAX_TARGET_BYTES: Final = 8 * 1024
_MAX_FIELDS: Final = 100
_VERSIONS: Final = ("1.0", "1.1")
# Of these a second one makes a request ambiguous.
_SINGULAR: Final = (b"host", b"content-length", b"transfer-encoding")

_REQUEST_LINE: Final = re.compile(rb"(?:\r\n)*[!#$%&'*+.^_`|~0-9A-Za-z-]+ [!-~]+ HTTP/1\.[01]\r\n")

Field = tuple[bytes, bytes]


class WireError(Exception):
    """Bytes that are no request we answer.

    Args:
        status: What the client is told.
    """

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def body_length(method: bytes, target: bytes, version: str, fields: Sequence[Field]) -> int | None:
    """Bytes that follow a head; None if they come in chunks.

    Args:
        method: As written.
        target: As written.
        version: Such as `1.1`.
        fields: Names in lower case; their values are known to be well formed, each by itself.

    Raises:
        WireError: If the head is ambiguous, or over a limit.
    """
    if version not in _VERSIONS:
        raise WireError(505)
    if len(target) > MAX_TARGET_BYTES:
        raise WireError(414)
    if len(fields) > _MAX_FIELDS:
        raise WireError(431)
    values = dict(fields)
    if method == b"CONNECT" or (b"host" not in values and version == "1.1"):
        raise WireError(400)
    if len(values) < len(fields):
        _refuse_ambiguity(fields)
    coding = values.get(b"transfer-encoding")
    if coding is None:
        return int(values.get(b"content-length", 0))
    if coding.lower() != b"chunked" or version == "1.0" or b"content-length" in values:
        raise WireError(400)
    return None


def _refuse_ambiguity(fields: Sequence[Field]) -> None:
    names = [name for name, _ in fields if name in _SINGULAR]
    if len(set(names)) < len(names):
        raise WireError(400)


def begins_with_request_line(data: bytes) -> bool:
    """Returns whether data begins with a well-formed request line, of whatever method."""
    return _REQUEST_LINE.match(data) is not None
