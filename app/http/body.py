"""① The body of a request as plain values: strict JSON, or a form as URL-encoded text.

No duplicate keys, no NaN or Infinity (nor 1e999, which would become one), no numbers of thousands of
digits, no endless nesting, no crowds of keys, objects or numbers: each costs far more than its bytes.
"""

import json
import math
import re
from codecs import BOM_UTF8
from email.message import Message
from functools import lru_cache
from typing import Final, NamedTuple, NoReturn

from starlette.requests import Request

from app.errors import ClientGoneError
from app.http.errors import RequestError

Values = dict[str, object]
LONGEST_NUMBER: Final = 32
"""Digits of a whole number at most."""
# A request has some twenty fields, some of which are numbers, and one object in it.
_MOST_KEYS: Final = 64
_MOST_VALUES: Final = 1000


def parse_object(text: str) -> Values:
    """The fields of a JSON object.

    Raises:
        RequestError: If it is none, or one that nobody needs to send.
    """
    try:
        value = (_UNCOUNTED if _is_surely_small(text) else _decoder(_Values(_MOST_VALUES))).decode(text)
    except json.JSONDecodeError:
        raise invalid_body("the body is not valid JSON") from None
    except RecursionError:
        raise invalid_body("the body is nested too deeply") from None
    if not isinstance(value, dict):
        raise invalid_body("the body must be a JSON object")
    return value


def invalid_body(message: str) -> RequestError:
    """The refusal of a body that is of its type, but not as it must be."""
    return RequestError("invalid_body", message)


def _is_surely_small(text: str) -> bool:
    # No value comes without one of these before it.
    return sum(map(text.count, ",[{")) < _MOST_VALUES


def _decoder(values: "_Values") -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=values.object,
        parse_constant=_refuse_constant,
        parse_float=values.finite,
        parse_int=values.short,
    )


class _Values:
    """What the parser makes of a body's objects and numbers.

    Args:
        most: How many there may be in all that is parsed.
    """

    def __init__(self, most: float) -> None:
        self._left = most

    def object(self, pairs: list[tuple[str, object]]) -> Values:
        """An object without duplicate keys."""
        self._spend()
        if len(pairs) > _MOST_KEYS:
            raise invalid_body(f"an object holds too many keys: at most {_MOST_KEYS}")
        values = dict(pairs)
        if len(values) < len(pairs):
            raise invalid_body("the body holds the same key twice")
        return values

    def finite(self, digits: str) -> float:
        """A number with a fraction."""
        self._spend()
        number = float(digits)
        if not math.isfinite(number):
            raise invalid_body("a number is out of range")
        return number

    def short(self, digits: str) -> int:
        """A whole number."""
        self._spend()
        if len(digits) > LONGEST_NUMBER:
            raise invalid_body("a number is out of range")
        return int(digits)

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise invalid_body(f"the body holds too many objects and numbers: at most {_MOST_VALUES}")


def _refuse_constant(_name: str) -> NoReturn:
    raise invalid_body("NaN and Infinity are not JSON")


# Making one takes longer than reading a short body.
_UNCOUNTED: Final = _decoder(_Values(math.inf))


# Decoding a megabyte of escapes takes `urllib.parse` half a second and 60 MB, and by runs 10 ms.
_ESCAPES: Final = re.compile(rb"(?:%[0-9A-Fa-f]{2})++")
# Fields that hold texts, as LibreTranslate and DeepL call them.
_TEXTS: Final = ("q", "text")
_OTHER_FIELDS: Final = 32


def parse_form(body: bytes, max_items: int) -> Values:
    """Texts and `include` may be repeated, and what is blank counts as not sent.

    Args:
        body: Valid UTF-8.
        max_items: How many texts there may be.

    Raises:
        RequestError: If there are more fields, one comes twice, or one is no text.
    """
    count, most = body.count(b"&") + 1, max_items + _OTHER_FIELDS
    if count > most:
        # There may be a hundred thousand: they are counted, but not read.
        for field in _TEXTS:
            require_room(field, (b"&" + body).count(f"&{field}=".encode()), max_items)
        raise invalid_body(f"the form has too many fields: {count}, at most {most}")
    fields: dict[str, list[str]] = {}
    for part in filter(None, body.split(b"&")):
        name, _, value = part.partition(b"=")
        if value or _unescape(name) in _TEXTS:
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
    if name == "include" or (name in _TEXTS and len(values) > 1):
        return values
    if len(values) > 1:
        raise invalid_body("the form holds the same field twice")
    return values[0]


def _parse_field(name: str, text: str) -> Values:
    try:
        return parse_object(text)
    except RequestError:
        # It would speak of the body, which this is only a part of.
        raise RequestError("invalid_field", f"`{name}`: input should be a JSON object", name) from None


JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
# Of a content type; a longer one, full of parameters, would keep the event loop busy for long.
_MOST_CHARACTERS = 256
_UTF16_OR_32_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


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


async def read_body(request: Request, *, max_bytes: int, max_items: int, takes_query: bool = False) -> Body:
    """Fields of a JSON or form body.

    Args:
        request: Whose body has not been read.
        max_bytes: Limit of the body.
        max_items: Limit of repeated form fields.
        takes_query: Whether the query stands for a body that is empty, as a form.

    Raises:
        RequestError: If the body is too large, of another type, or not what its type says.
        ClientGoneError: If the client left before it was complete.
    """
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise RequestError("unsupported_encoding", "the body must come without Content-Encoding")
    query: bytes = request.scope["query_string"] if takes_query else b""
    sent = await _read(request, max_bytes) if query else None
    if query and not sent:
        return Body(parse_form(query, max_items), is_form=True, size=0)
    media_type = _media_type(request.headers.get("content-type", ""))
    if sent is None:
        sent = await _read(request, max_bytes)
    text = _decode(sent)
    # `curl -d '{...}'` calls its JSON a form; no form of ours begins with a brace.
    if media_type == JSON or text.lstrip().startswith("{"):
        return Body(parse_object(text), is_form=False, size=len(sent))
    return Body(parse_form(text.encode(), max_items), is_form=True, size=len(sent))


@lru_cache(maxsize=64)
def _media_type(content_type: str) -> str:
    header = Message()
    header["content-type"] = content_type
    media_type = header.get_content_type() if 0 < len(content_type) <= _MOST_CHARACTERS else ""
    if media_type not in (JSON, FORM):
        raise RequestError("unsupported_media_type", f"Content-Type must be {JSON} or {FORM}")
    charset = header.get_content_charset("utf-8")
    if charset not in ("utf-8", "utf8", "us-ascii"):
        raise RequestError("unsupported_charset", "the body must be UTF-8")
    return media_type


async def _read(request: Request, max_bytes: int) -> bytearray:
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large(max_bytes, f"{int(declared)}, ")
    body, more_body = bytearray(), True
    while more_body:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        body += message.get("body", b"")
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
        more_body = message.get("more_body", False)
    return body


def _too_large(max_bytes: int, declared: str = "") -> RequestError:
    message = f"the body is over the limit MAX_BODY_BYTES: {declared}at most {max_bytes} bytes"
    return RequestError("body_too_large", message)


def _decode(body: bytearray) -> str:
    # JSON begins with ASCII, so a zero among its first two bytes means wider characters.
    if body.startswith(_UTF16_OR_32_MARKS) or b"\x00" in body[:2]:
        raise RequestError("unsupported_charset", "the body must be UTF-8")
    try:
        return body.removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError:
        raise RequestError("invalid_utf8", "the body is not valid UTF-8") from None


def check_count(texts: object, name: str, most: int) -> None:
    """Refuse a list of too many texts, before anything reads them.

    Raises:
        RequestError: If there are more than `most`.
    """
    if isinstance(texts, list):
        require_room(name, len(texts), most)


def require_room(name: str, count: int, most: int) -> None:
    """Refuse so many texts.

    Raises:
        RequestError: If there are more than there may be.
    """
    if count > most:
        limit = "MAX_ITEMS" if name == "q" else "of texts"
        message = f"`{name}` is over the limit {limit}: {count}, at most {most}"
        raise RequestError("too_many_items", message, name)
