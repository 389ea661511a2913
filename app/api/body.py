"""① The bytes of a request become plain values; what is not clean JSON or a clean form is refused."""

from codecs import BOM_UTF8
from email.message import Message
from functools import lru_cache
from typing import NamedTuple

from starlette.requests import Request

from app.api.errors import RequestError
from app.api.form import parse_form
from app.api.strict_json import Values, parse_object
from app.errors import ClientGoneError

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
# Of a content type; a longer one, full of parameters, would keep the event loop busy for long.
_MOST_CHARACTERS = 256
_UTF16_OR_32_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


class Body(NamedTuple):
    """Fields of a body as sent, and whether it is a form, so that every value came as text."""

    values: Values
    is_form: bool


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
        return Body(parse_form(query, max_items), is_form=True)
    media_type = _media_type(request.headers.get("content-type", ""))
    text = _decode(await _read(request, max_bytes) if sent is None else sent)
    # `curl -d '{...}'` calls its JSON a form; no form of ours begins with a brace.
    if media_type == JSON or text.lstrip().startswith("{"):
        return Body(parse_object(text), is_form=False)
    return Body(parse_form(text.encode(), max_items), is_form=True)


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
