"""① The bytes of a request become plain values; what is not clean JSON or a clean form is refused.

Stricter than the standard parser: no duplicate keys, no NaN or Infinity (nor 1e999, which would
become one), no numbers of thousands of digits, no endless nesting.
"""

import json
import math
from codecs import BOM_UTF8
from email.message import Message
from functools import lru_cache
from typing import NoReturn
from urllib.parse import parse_qsl

from starlette.requests import Request

from app.api.errors import RequestError
from app.errors import ClientGoneError

Values = dict[str, object]
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
_UTF16_OR_32_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_LONGEST_NUMBER = 32
# Fields that hold texts, as LibreTranslate and DeepL call them.
_TEXTS = ("q", "text")


async def read_values(request: Request, *, max_bytes: int, max_items: int) -> Values:
    """Fields of a JSON or form body, as sent.

    Args:
        request: Whose body has not been read.
        max_bytes: Limit of the body.
        max_items: Limit of repeated form fields.

    Raises:
        RequestError: If the body is too large, of another type, or not what its type says.
        ClientGoneError: If the client left before it was complete.
    """
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise RequestError(415, "unsupported_encoding", "the body must come without Content-Encoding")
    media_type = _media_type(request.headers.get("content-type", ""))
    body = await _read(request, max_bytes)
    # `curl -d '{...}'` calls its JSON a form; no form of ours begins with a brace.
    if media_type == JSON or body.lstrip().startswith(b"{"):
        return _object(_decode(body))
    return _form(_decode(body), max_items)


def is_form(request: Request) -> bool:
    """Whether all values of a body that could be read came as text."""
    return _media_type(request.headers.get("content-type", "")) == FORM


@lru_cache(maxsize=64)
def _media_type(content_type: str) -> str:
    header = Message()
    header["content-type"] = content_type
    media_type = header.get_content_type() if content_type else ""
    if media_type not in (JSON, FORM):
        raise RequestError(415, "unsupported_media_type", f"Content-Type must be {JSON} or {FORM}")
    charset = header.get_content_charset("utf-8")
    if charset not in ("utf-8", "utf8", "us-ascii"):
        raise RequestError(415, "unsupported_charset", "the body must be UTF-8")
    return media_type


async def _read(request: Request, max_bytes: int) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    body, more_body = b"", True
    while more_body:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        body += message.get("body", b"")
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
        more_body = message.get("more_body", False)
    return body


def _too_large(max_bytes: int) -> RequestError:
    message = f"the body is over the limit MAX_BODY_BYTES: at most {max_bytes} bytes"
    return RequestError(413, "body_too_large", message)


def _decode(body: bytes) -> str:
    # JSON begins with ASCII, so a zero among its first two bytes means wider characters.
    if body.startswith(_UTF16_OR_32_MARKS) or b"\x00" in body[:2]:
        raise RequestError(415, "unsupported_charset", "the body must be UTF-8")
    try:
        return body.removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError:
        raise RequestError(400, "invalid_utf8", "the body is not valid UTF-8") from None


def _object(text: str) -> Values:
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError:
        raise _invalid("the body is not valid JSON") from None
    except RecursionError:
        raise _invalid("the body is nested too deeply") from None
    if not isinstance(value, dict):
        raise _invalid("the body must be a JSON object")
    return value


def _without_duplicates(pairs: list[tuple[str, object]]) -> Values:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise _invalid("the body holds the same key twice")
    return values


def _refuse_constant(_name: str) -> NoReturn:
    raise _invalid("NaN and Infinity are not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise _invalid("a number is out of range")
    return number


def _short(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise _invalid("a number is out of range")
    return int(digits)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_without_duplicates,
    parse_constant=_refuse_constant,
    parse_float=_finite,
    parse_int=_short,
)


def _form(text: str, max_items: int) -> Values:
    """A form's fields; texts and `include` may be repeated, and blank ones count as not sent."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=max_items + 32)
    except UnicodeDecodeError:
        raise RequestError(400, "invalid_utf8", "the form is not valid UTF-8") from None
    except ValueError:
        message = f"the form has too many fields: `q` at most {max_items} times, the limit MAX_ITEMS"
        raise RequestError(413, "too_many_items", message, "q") from None
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        if value or name in _TEXTS:
            fields.setdefault(name, []).append(value)
    return {name: _field_value(name, values) for name, values in fields.items()}


def _field_value(name: str, values: list[str]) -> object:
    if name == "decoding" and len(values) == 1:
        return _object(values[0])
    if name == "include" or (name in _TEXTS and len(values) > 1):
        return values
    if len(values) > 1:
        raise _invalid("the form holds the same field twice")
    return values[0]


def _invalid(message: str) -> RequestError:
    return RequestError(422, "invalid_body", message)
