"""② Markup languages: what a tag is, and which elements are special."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

# Python's own HTML parser takes seconds for 10,000 characters of `<a <a <a`; this takes milliseconds.
# Comments, scripts and the like run to the end if nothing closes them, as in a browser. A quote that
# nothing closes does not count as one. Possessive quantifiers keep all of it from going back.
_TAG = r"""
    <!--(?:.*?-->|.*+)
    | <!\[CDATA\[(?:.*?\]\]>|.*+)
    | <[!?][^>]*+>
    | <(?P<closing>/?)(?P<name>{initial}[^\s/>]*+)(?P<attributes>(?:"[^"]*+"|'[^']*+'|[^'">])*+|[^>]*+)>
"""
_RAW = r"<(?P<raw>script|style|textarea)(?![^\s/>])(?:.*?</(?P=raw)\s*>|.*+)"
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What is special in a markup language.

    Attributes:
        tag: Matches what is no text.
        untranslated: Elements whose text is left alone, in lower case.
        void: Elements that have no end, in lower case.
    """

    tag: re.Pattern[str]
    untranslated: frozenset[str] = frozenset()
    void: frozenset[str] = frozenset()

    def ignoring(self, names: Iterable[str]) -> Self:
        """The same, with more elements left alone."""
        return replace(self, untranslated=self.untranslated | {name.lower() for name in names})


def _tags(pattern: str, *, initial: str) -> re.Pattern[str]:
    """Compiled, with what the name of an element begins with."""
    return re.compile(pattern.replace("{initial}", initial), re.VERBOSE | re.DOTALL | re.IGNORECASE)


HTML = Dialect(
    tag=_tags(f"{_RAW} | {_TAG}", initial="[a-z]"),
    untranslated=frozenset({"code", "pre", "noscript", "template"}),
    void=_VOID,
)
XML = Dialect(tag=_tags(_TAG, initial=r"[^\W\d]"))
