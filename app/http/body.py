"""① The body of a request as plain values: strict JSON, a URL-encoded form, or multipart/form-data.

JSON is refused with duplicate keys, with NaN or Infinity (or 1e999, which would become one), with numbers
of thousands of digits, with deep nesting, and with many keys, objects or numbers: each costs far more than
its bytes.
"""

import json
import math
import re
from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, Sequence
from email.message import Message
from functools import lru_cache
from typing import Final, NamedTuple, NoReturn

from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.types import Scope

from app.errors import ClientGoneError
from app.http.errors import RequestError

Values = dict[str, object]
HEADERS_BY_NAME: Final = "headers_by_name"
"""Key in a request's scope: the first value of each header field; absent until one is asked for."""
# A header with thousands of ranges would keep the event loop busy.
_MAX_RANGES: Final = 32
LONGEST_NUMBER: Final = 32
"""Most digits of a whole number."""
# A request has about twenty fields, some of them numbers, and one nested object.
_MAX_KEYS: Final = 64
_MAX_VALUES: Final = 1000

# Decoding a megabyte of escapes takes `urllib.parse` half a second and 60 MB, and by runs 10 ms.
_ESCAPES: Final = re.compile(rb"(?:%[0-9A-Fa-f]{2})++")
# Fields that hold texts, at LibreTranslate and at DeepL.
TEXTS: Final = frozenset({"q", "text"})
_OTHER_FIELDS: Final = 32
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
# A content type with many parameters would keep the event loop busy.
_MAX_TYPE_CHARACTERS = 256
_BOUNDARY: Final = re.compile(r"[A-Za-z0-9'()+_,./:=?-]{1,70}")
_UTF16_OR_32_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


def parse_object(text: str) -> Values:
    """Returns the fields of a JSON object.

    Raises:
        RequestError: If the text is not a JSON object, or is over a limit.
    """
    try:
        value = (_UNCOUNTED if _is_surely_small(text) else _decoder(_Values(_MAX_VALUES))).decode(text)
    except json.JSONDecodeError:
        raise invalid_body("the body is not valid JSON") from None
    except RecursionError:
        raise invalid_body("the body is nested too deeply") from None
    if not isinstance(value, dict):
        raise invalid_body("the body must be a JSON object")
    return value


def invalid_body(message: str) -> RequestError:
    """Returns the refusal of a body that is not what its content type says."""
    return RequestError("invalid_body", message)


def _is_surely_small(text: str) -> bool:
    # One of these characters comes before each value.
    return sum(map(text.count, ",[{")) < _MAX_VALUES


def _decoder(values: "_Values") -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=values.object,
        parse_constant=_refuse_constant,
        parse_float=values.finite,
        parse_int=values.bounded_int,
    )


class _Values:
    """Makes and counts the objects and numbers of a body.

    Args:
        most: Highest count.
    """

    def __init__(self, most: float) -> None:
        self._left = most

    def object(self, pairs: list[tuple[str, object]]) -> Values:
        """Returns an object without duplicate keys."""
        self._spend()
        if len(pairs) > _MAX_KEYS:
            raise invalid_body(f"an object holds too many keys: at most {_MAX_KEYS}")
        values = dict(pairs)
        if len(values) < len(pairs):
            raise invalid_body("the body holds the same key twice")
        return values

    def finite(self, digits: str) -> float:
        """Returns a number with a fraction."""
        self._spend()
        number = float(digits)
        if not math.isfinite(number):
            raise invalid_body("a number is out of range")
        return number

    def bounded_int(self, digits: str) -> int:
        """Returns a whole number."""
        self._spend()
        if len(digits) > LONGEST_NUMBER:
            raise invalid_body("a number is out of range")
        return int(digits)

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise invalid_body(f"the body holds too many objects and numbers: at most {_MAX_VALUES}")


def _refuse_constant(_name: str) -> NoReturn:
    raise invalid_body("NaN and Infinity are not JSON")


# Making a decoder takes longer than parsing a short body.
_UNCOUNTED: Final = _decoder(_Values(math.inf))


def parse_form(body: bytes, max_items: int) -> Values:
    """Returns the fields of a form. Texts, `include` and `keep` may repeat; blank fields count as not sent.

    Args:
        body: Valid UTF-8.
        max_items: Highest number of texts.

    Raises:
        RequestError: If there are more texts or other fields, a field comes twice, or one is not UTF-8.
    """
    count, most = body.count(b"&") + 1, max_items + _OTHER_FIELDS
    if count > most:
        # There may be a hundred thousand fields: they are counted, but not decoded.
        for field in TEXTS:
            require_count(field, (b"&" + body).count(f"&{field}=".encode()), max_items)
        raise invalid_body(f"the form has too many fields: {count}, at most {most}")
    fields: dict[str, list[str]] = {}
    for part in filter(None, body.split(b"&")):
        name, _, value = part.partition(b"=")
        if value or _unescape(name) in TEXTS:
            fields.setdefault(_unescape(name), []).append(_unescape(value))
    if len(fields) > _OTHER_FIELDS:
        raise invalid_body(f"the form has too many fields: {len(fields)}, at most {_OTHER_FIELDS}")
    return {name: _field_value(name, values) for name, values in fields.items()}


def _unescape(data: bytes) -> str:
    data, plain, end = data.replace(b"+", b" "), bytearray(), 0
    for run in _ESCAPES.finditer(data):
        plain += data[end : run.start()] + bytes.fromhex(run[0].replace(b"%", b"").decode("ascii"))
        end = run.end()
    try:
        return (plain + data[end:]).decode()
    except UnicodeDecodeError:
        raise RequestError("invalid_utf8", "the form is not valid UTF-8") from None


def _field_value(name: str, values: list[str]) -> object:
    if name == "decoding" and len(values) == 1:
        return _parse_field(name, values[0])
    if name in ("include", "keep") or (name in TEXTS and len(values) > 1):
        return values
    if len(values) > 1:
        raise invalid_body("the form holds the same field twice")
    return values[0]


def _parse_field(name: str, text: str) -> Values:
    try:
        return parse_object(text)
    except RequestError:
        # The message would be about the body, of which this is only a part.
        raise RequestError("invalid_field", f"`{name}`: input should be a JSON object", name) from None


class Upload(NamedTuple):
    """A file of a multipart body.

    Attributes:
        name: The name that the client gave it.
        content: Its bytes.
    """

    name: str
    content: bytes


async def parse_multipart(body: bytes, content_type: str, max_items: int) -> Values:
    """Returns the fields of a multipart body, at most one of them a file; the rest is as in a form.

    Raises:
        RequestError: If it is malformed, holds more fields or files, a field twice, or a text not in UTF-8.
    """
    boundary = _header(content_type).get_boundary("")
    if not _BOUNDARY.fullmatch(boundary):
        raise invalid_body("the multipart body has no valid boundary")
    if f"--{boundary}--".encode() not in body:
        raise invalid_body("the multipart body has no end")
    # The parser replaces what it cannot decode; Latin-1 decodes everything, and is undone below.
    headers = Headers({"Content-Type": f'{MULTIPART}; boundary="{boundary}"; charset=latin-1'})
    most = max_items + _OTHER_FIELDS
    parser = MultiPartParser(headers, _once(body), max_files=1, max_fields=most, max_part_size=len(body))
    try:
        form = await parser.parse()
    except MultiPartException as error:
        message = f"the multipart body is malformed, or has more than 1 file or {most} fields"
        raise invalid_body(message) from error
    fields: dict[str, list[str]] = {}
    uploads: Values = {}
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            uploads[_utf8(name)] = Upload(_utf8(value.filename or ""), await value.read())
        elif value or name in TEXTS:
            fields.setdefault(_utf8(name), []).append(_utf8(value))
    await form.close()
    if fields.keys() & uploads.keys():
        raise invalid_body("the form holds the same field twice")
    return {name: _field_value(name, values) for name, values in fields.items()} | uploads


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


def _utf8(text: str) -> str:
    try:
        return text.encode("latin-1").decode()
    except UnicodeDecodeError:
        raise RequestError("invalid_utf8", "the form is not valid UTF-8") from None


class Body(NamedTuple):
    """A body that was read.

    Attributes:
        values: Its fields as sent.
        is_form: Whether it is a form, so that every value came as text.
        size: Its bytes.
    """

    values: Values
    is_form: bool
    size: int


def headers_by_name(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Returns the first value of each header field."""
    return dict(reversed(headers))


def header_of(scope: Scope, name: bytes, default: str = "") -> str:
    """Returns the value of a header field by its name in lower case: the first of several."""
    headers = scope.get(HEADERS_BY_NAME)
    if headers is None:
        headers = scope[HEADERS_BY_NAME] = headers_by_name(scope["headers"])
    value = headers.get(name)
    return default if value is None else str(value, "latin-1")


@lru_cache(maxsize=64)
def preferences(header: str) -> tuple[str, ...]:
    """Returns what an `Accept` or `Accept-Language` header names, in lower case, the most wanted first."""
    ranges = [_weighted_range(part) for part in header.split(",", _MAX_RANGES)[:_MAX_RANGES]]
    wanted = sorted((each for each in ranges if each[0] > 0), key=lambda each: -each[0])
    return tuple(name for _, name in wanted)


def _weighted_range(part: str) -> tuple[float, str]:
    name, *parameters = (each.strip().lower() for each in part.split(";"))
    quality = next((each[2:] for each in parameters if each.startswith("q=")), "1")
    try:
        return float(quality), name
    except ValueError:
        return 0.0, name


async def read_body(
    request: Request,
    *,
    max_bytes: int,
    limit_name: str,
    max_items: int,
    takes_query: bool = False,
) -> Body:
    """Read a JSON, form or multipart body.

    Args:
        request: A request whose body has not been read.
        max_bytes: Highest number of bytes.
        limit_name: The name of that limit.
        max_items: Highest number of repeated form fields.
        takes_query: Whether the query is read as a form if the body is empty.

    Raises:
        RequestError: If the body is too large, of another type, or not what its type says.
        ClientGoneError: If the client left before the body was complete.
    """
    if header_of(request.scope, b"content-encoding", "identity").strip().lower() != "identity":
        raise RequestError("unsupported_encoding", "the body must come without Content-Encoding")
    query: bytes = request.scope["query_string"] if takes_query else b""
    # An empty body needs no content type; any other is refused unread if its content type is not known.
    sent = await read_bytes(request, max_bytes, limit_name) if query else None
    if query and not sent:
        return Body(parse_form(query, max_items), is_form=True, size=0)
    content_type = header_of(request.scope, b"content-type")
    media_type = _media_type(content_type)
    if sent is None:
        sent = await read_bytes(request, max_bytes, limit_name)
    if media_type == MULTIPART:
        values = await parse_multipart(bytes(sent), content_type, max_items)
        return Body(values, is_form=True, size=len(sent))
    text = _decode(sent)
    # `curl -d '{...}'` sends JSON as a form; no valid form begins with a brace.
    if media_type == JSON or text.lstrip().startswith("{"):
        return Body(parse_object(text), is_form=False, size=len(sent))
    return Body(parse_form(text.encode(), max_items), is_form=True, size=len(sent))


@lru_cache(maxsize=64)
def _media_type(content_type: str) -> str:
    header = _header(content_type)
    media_type = header.get_content_type() if 0 < len(content_type) <= _MAX_TYPE_CHARACTERS else ""
    if media_type not in (JSON, FORM, MULTIPART):
        raise RequestError("unsupported_media_type", f"Content-Type must be {JSON}, {FORM} or {MULTIPART}")
    charset = header.get_content_charset("utf-8")
    if charset not in ("utf-8", "utf8", "us-ascii"):
        raise RequestError("unsupported_charset", "the body must be UTF-8")
    return media_type


def _header(content_type: str) -> Message:
    header = Message()
    header["content-type"] = content_type
    return header


async def read_bytes(request: Request, max_bytes: int, limit_name: str) -> bytearray:
    """Read a body as it comes.

    Args:
        request: A request whose body has not been read.
        max_bytes: Highest number of bytes.
        limit_name: The name of this limit.

    Raises:
        RequestError: If the body is longer.
        ClientGoneError: If the client left before the body was complete.
    """
    declared = header_of(request.scope, b"content-length")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large(limit_name, max_bytes, f"{int(declared)}, ")
    body, more_body = bytearray(), True
    while more_body:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        body += message.get("body", b"")
        if len(body) > max_bytes:
            raise _too_large(limit_name, max_bytes)
        more_body = message.get("more_body", False)
    return body


def _too_large(limit_name: str, max_bytes: int, declared: str = "") -> RequestError:
    message = f"the body is over the limit {limit_name}: {declared}at most {max_bytes} bytes"
    return RequestError("body_too_large", message)


def _decode(body: bytearray) -> str:
    # JSON begins with ASCII, so a zero in the first two bytes means wider characters.
    if body.startswith(_UTF16_OR_32_MARKS) or 0 in body[:2]:
        raise RequestError("unsupported_charset", "the body must be UTF-8")
    try:
        return body.removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError:
        raise RequestError("invalid_utf8", "the body is not valid UTF-8") from None


def require_count(name: str, count: int, most: int) -> None:
    """Check the number of texts.

    Raises:
        RequestError: If there are more than `most`.
    """
    if count > most:
        limit = "MAX_ITEMS" if name == "q" else "of texts"
        message = f"`{name}` is over the limit {limit}: {count}, at most {most}"
        raise RequestError("too_many_items", message, name)
