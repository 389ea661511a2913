"""① A form's fields, decoded as https://url.spec.whatwg.org/#urlencoded-parsing says, in little time.

`urllib.parse` takes half a second and 60 MB for a megabyte of escapes.
"""

import binascii
import re
from typing import Final

from app.api.errors import RequestError
from app.api.strict_json import Values, invalid_body, parse_object
from app.api.validation import require_room

# A sign that begins no escape stands for itself.
_STRAY: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
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
    plain = _STRAY.sub(b"%25", data.replace(b"+", b" ")).replace(b"=", b"%3D")
    try:
        # Quoted-printable has the same escapes behind another sign, and a decoder in C.
        return binascii.a2b_qp(plain.replace(b"%", b"=")).decode()
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
