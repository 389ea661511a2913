"""② Markup languages: what a tag is, and which elements are special."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from app.translation.implied_ends import ENDED_BY

# Python's own HTML parser takes seconds for 10,000 characters of `<a <a <a`; this takes milliseconds.
# A quote that nothing closes does not count as one. Possessive quantifiers keep all of it from going back.
_TAG = r"""
    <[!?][^>]*+>
    | <(?P<closing>/?)(?P<name>{initial}[^\s/>]*+)(?P<attributes>(?:"[^"]*+"|'[^']*+'|[^'">])*+|[^>]*+)>
"""
# Sections, by what they begin and end with. One that nothing ends runs to the end of all, as in a browser.
_COMMENTS = {"<!--": "-->", r"<!\[CDATA\[": r"\]\]>"}
# In HTML `<!-->` and `<!--->` are whole comments, and `--!>` ends one too:
# https://html.spec.whatwg.org/multipage/parsing.html#comment-start-state.
_HTML_COMMENTS = _COMMENTS | {"<!--": "(?:(?<=<!--)-?>|--!?>)"}
_SCRIPTS = {
    rf"<{name}(?![^\s/>])": rf"</{name}(?![^\s/>])[^>]*+>" for name in ("script", "style", "textarea")
}
_NAME = re.compile(r"</?([^\s/>]+)")
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_INLINE = frozenset(
    {"a", "abbr", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i", "ins", "kbd"}
    | {"label", "mark", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "time", "tt"}
    | {"u", "var"}
)


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What is special in a markup language.

    Attributes:
        tag: Matches what is no text; of a section without an end only the beginning, as its group `endless`.
        section: Matches the beginning of any section: of a comment, say, in which nothing is text or tag.
        untranslated: Elements whose text is left alone, in lower case.
        void: Elements that have no end, in lower case.
        ended_by: Elements that need no end tag, each with the tags that end it as well.
        inline: Elements within a line, in lower case: a sentence may go on beyond their tags.
        has_entities: Whether a document may declare entities of its own.
    """

    tag: re.Pattern[str]
    section: re.Pattern[str]
    untranslated: frozenset[str] = frozenset()
    void: frozenset[str] = frozenset()
    ended_by: Mapping[str, frozenset[str]] = field(default_factory=dict)
    inline: frozenset[str] = frozenset()
    has_entities: bool = False

    def is_inline(self, tag: str) -> bool:
        """Whether this is the tag of an element within a line of text."""
        name = _NAME.match(tag)
        return name is not None and name[1].lower() in self.inline

    def ignoring(self, names: Iterable[str]) -> Self:
        """The same, with more elements left alone."""
        return replace(self, untranslated=self.untranslated | {name.lower() for name in names})


def _tag(sections: Mapping[str, str], *, initial: str) -> re.Pattern[str]:
    """Matches what is no text, with what the name of an element begins with."""
    whole = (f"{begin}.*?{end}" for begin, end in sections.items())
    endless = f"(?P<endless>{'|'.join(sections)})"
    return _pattern("|".join((*whole, endless, _TAG.replace("{initial}", initial))))


def _section(sections: Mapping[str, str]) -> re.Pattern[str]:
    return _pattern("|".join(sections))


def _pattern(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.VERBOSE | re.DOTALL | re.IGNORECASE)


HTML = Dialect(
    tag=_tag(_HTML_COMMENTS | _SCRIPTS, initial="[a-z]"),
    section=_section(_HTML_COMMENTS | _SCRIPTS),
    untranslated=frozenset({"code", "pre", "noscript", "template"}),
    void=_VOID,
    ended_by=ENDED_BY,
    inline=_INLINE,
)
XML = Dialect(
    tag=_tag(_COMMENTS, initial=r"[^\W\d]"),
    section=_section(_COMMENTS),
    has_entities=True,
)
