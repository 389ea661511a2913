"""① The head of a request, read strictly (https://www.rfc-editor.org/rfc/rfc9112).

What a proxy in front might take for another request than we do is refused: bare line feeds, folded
fields, white space before a colon, two lengths, a length that is none.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

MAX_HEAD_BYTES: Final = 16 * 1024
_MAX_TARGET_BYTES: Final = 8 * 1024
_MAX_FIELDS: Final = 100

_END: Final = b"\r\n\r\n"
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_NAME: Final = re.compile(_TOKEN)
_REQUEST_LINE: Final = re.compile(_TOKEN.join((b"(", rb") ([!-~]+) HTTP/(\d\.\d)")))
_FORBIDDEN: Final = re.compile(rb"[^\t\r\n -~\x80-\xff]|\r(?!\n)|(?<!\r)\n")
# Of these a second one makes a request ambiguous.
_SINGULAR: Final = frozenset({b"host", b"content-length", b"transfer-encoding"})

Field = tuple[bytes, bytes]


class WireError(Exception):
    """Bytes that are no request we answer.

    Args:
        status: What the client is told.
    """

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Head(NamedTuple):
    """What stands before a body.

    Attributes:
        method: As written.
        target: As written, printable ASCII.
        version: `1.0` or `1.1`.
        fields: Names in lower case, values without white space around them.
        length: Bytes of the body; None where it comes in chunks.
        is_last: Whether the client sends no further request on this connection.
        awaits_invitation: Whether it keeps the body back until it hears `100 Continue`.
    """

    method: str
    target: bytes
    version: str
    fields: list[Field]
    length: int | None
    is_last: bool
    awaits_invitation: bool


def take_head(buffer: bytearray) -> Head | None:
    """Remove a head from the front of a buffer; None if it is not complete yet.

    Raises:
        WireError: If it is none, or over a limit.
    """
    end = buffer.find(_END, 0, MAX_HEAD_BYTES + len(_END))
    if end < 0:
        _check_beginning(buffer)
        return None
    head = bytes(buffer[:end])
    del buffer[: end + len(_END)]
    return _parse(head)


def _check_beginning(buffer: bytearray) -> None:
    """Refuse at once what can never become a head; TLS and other protocols may wait for our answer."""
    if len(buffer) > MAX_HEAD_BYTES:
        raise WireError(414 if buffer.find(b"\r\n", 0, MAX_HEAD_BYTES) < 0 else 431)
    if buffer and (not _NAME.match(buffer) or b"\n\n" in buffer or b"\n\r\n" in buffer):
        raise WireError(400)


def _parse(head: bytes) -> Head:
    if _FORBIDDEN.search(head):
        raise WireError(400)
    first, *lines = head.split(b"\r\n")
    method, target, version = _request_line(first)
    if len(lines) > _MAX_FIELDS:
        raise WireError(431)
    fields = [parse_field(line) for line in lines]
    values = dict(fields)
    if len(values) < len(fields):
        _refuse_ambiguity(fields)
    if b"host" not in values and version == "1.1":
        raise WireError(400)
    return Head(
        method,
        target,
        version,
        fields,
        _length(values, version),
        version == "1.0" or (b"connection" in values and _closes(fields)),
        version == "1.1" and values.get(b"expect", b"").lower() == b"100-continue",
    )


def _request_line(line: bytes) -> tuple[str, bytes, str]:
    match = _REQUEST_LINE.fullmatch(line)
    if match is None:
        raise WireError(400)
    method, target, version = match.groups()
    if version not in (b"1.0", b"1.1"):
        raise WireError(505)
    if len(target) > _MAX_TARGET_BYTES:
        raise WireError(414)
    return method.decode("ascii"), target, version.decode("ascii")


def parse_field(line: bytes) -> Field:
    """Name and value of one line, which holds no control characters.

    Raises:
        WireError: If it is no field.
    """
    name, colon, value = line.partition(b":")
    if not colon:
        raise WireError(400)
    return _name(name), value.strip(b" \t")


@lru_cache(maxsize=256)
def _name(name: bytes) -> bytes:
    if not _NAME.fullmatch(name):
        raise WireError(400)
    return name.lower()


def _refuse_ambiguity(fields: list[Field]) -> None:
    names = [name for name, _ in fields if name in _SINGULAR]
    if len(set(names)) < len(names):
        raise WireError(400)


def _length(values: dict[bytes, bytes], version: str) -> int | None:
    length, coding = values.get(b"content-length"), values.get(b"transfer-encoding")
    if coding is not None:
        if coding.lower() != b"chunked" or length is not None or version == "1.0":
            raise WireError(400)
        return None
    if length is None:
        return 0
    if not length.isdigit() or len(length) > 18:
        raise WireError(400)
    return int(length)


def _closes(fields: list[Field]) -> bool:
    options = b",".join(value for name, value in fields if name == b"connection")
    return b"close" in (option.strip(b" \t") for option in options.lower().split(b","))
