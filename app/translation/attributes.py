"""② What a tag says of its element: that it is not to be translated, or that it is empty."""

import re

_ATTRIBUTE = re.compile(
    r"""
    (?P<name>[^\s/=>]++)
    (?:\s*+=\s*+(?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)'|(?P<bare>[^\s>]++)))?
    """,
    re.VERBOSE,
)


def says_no(attributes: str) -> bool:
    """Whether `translate="no"` is among a tag's attributes."""
    # Few tags have it, and none without this word.
    if "translate" not in attributes.lower():
        return False
    found = _ATTRIBUTE.finditer(attributes)
    values = (_value(attribute) for attribute in found if attribute["name"].lower() == "translate")
    return next(values, "").strip().lower() == "no"


def closes_itself(attributes: str) -> bool:
    """Whether a tag ends with a slash of its own: not one of a URL without quotes.

    In HTML a browser heeds it no more than that, but who writes `<x/>` means an empty element.
    """
    if not attributes.endswith("/"):
        return False
    *_, last = (None, *_ATTRIBUTE.finditer(attributes))
    return last is None or last.end() < len(attributes)


def _value(attribute: re.Match[str]) -> str:
    return attribute["double"] or attribute["single"] or attribute["bare"] or ""
