"""① Features of DeepL's API that this service lacks: refused by name, never ignored."""

from typing import Final

from app.http.body import Values
from app.http.errors import RequestError
from model.errors import ForeignTextError, InputError, TextTooLongError, UnsupportedLanguageError

_TAGS: Final = "the tags of blocks split"
UNSUPPORTED: Final = {
    "auth_key": "send the key as `Authorization: DeepL-Auth-Key KEY`",
    "custom_instructions": "the models take no instructions",
    "non_splitting_tags": _TAGS,
    "style_id": "there are no style rules",
    "tag_handling_version": "there is one way to handle tags",
    "translation_memory_id": "there are no translation memories",
    "translation_memory_threshold": "there are no translation memories",
}
_VALUES: Final = {
    ("formality", "more"): "the models have one register; `prefer_more` is accepted",
    ("formality", "less"): "the models have one register; `prefer_less` is accepted",
    ("outline_detection", "false"): _TAGS,
    ("outline_detection", "0"): _TAGS,
}


def supported(values: Values) -> Values:
    """Returns the fields of a request without unsupported fields that are null.

    Raises:
        RequestError: If a field or value is not supported, naming it.
    """
    for name, reason in UNSUPPORTED.items():
        if values.get(name) is not None:
            raise _refusal(f"`{name}` is not supported: {reason}", name)
    if values.get("ignore_tags") and not values.get("tag_handling"):
        raise _refusal("`ignore_tags` needs `tag_handling`", "ignore_tags")
    for (name, value), reason in _VALUES.items():
        if str(values.get(name)).lower() == value:
            raise _refusal(f"`{name}` cannot be `{value}`: {reason}", name)
    return {name: value for name, value in values.items() if name not in UNSUPPORTED}


def renamed(error: InputError) -> InputError:
    """Returns the same error with the names that fields and languages have in DeepL's API."""
    if isinstance(error, UnsupportedLanguageError) and not isinstance(error, ForeignTextError):
        codes = [code.upper() for code in error.allowed]
        return UnsupportedLanguageError(f"{error.field}_lang", error.code, codes)
    if isinstance(error, TextTooLongError) and error.field == "q":
        return TextTooLongError("text", error.limit_name, error.limit, error.value)
    return error


def _refusal(message: str, name: str) -> RequestError:
    return RequestError("unsupported_request", message, name)
