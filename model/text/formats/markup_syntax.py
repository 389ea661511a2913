"""② The syntax of HTML and XML: tags, special elements, and end tags that may be missing.

ENDED_BY covers the elements of https://html.spec.whatwg.org/#optional-tags except `html` and `body`, which
nothing follows, and the obsolete `rb` and `rtc`. Each element ends before the tags that the standard names,
before other tags where a browser ends it (a `p` before `<center>`, say), and at the end of its parent.

There are three differences from browsers. An element does not end while another one is open inside it. A tag
counts even where a browser ignores it, as `</div>` does without `<div>`. `head` and `colgroup` only end at
the tags given here, not at every tag that they cannot contain.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

from model.text.languages import UNSPACED_LETTERS

_ATTRIBUTE = re.compile(
    r"""
    (?P<name>[^\s/=>]++)
    (?:\s*+=\s*+(?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)'|(?P<bare>[^\s>]++)))?
    """,
    re.VERBOSE,
)

_BLOCKS = {
    *("address", "article", "aside", "blockquote", "center", "details", "dialog", "dir", "div", "dl"),
    *("fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header"),
    *("hgroup", "hr", "listing", "main", "menu", "nav", "ol", "p", "plaintext", "pre", "search", "section"),
    *("summary", "table", "ul", "xmp"),
}
_OTHER_PARENTS = {
    *("li", "dt", "dd", "td", "th", "caption", "button", "object", "applet", "marquee", "body", "html"),
}
_PARENTS = {f"/{name}" for name in {*_BLOCKS, *_OTHER_PARENTS}}
_ITEMS = {"li", "/ul", "/ol", "/menu", "/dir"}
_TERMS = {"dt", "dd", "/dl", "/div"}
_NOTES = {"rb", "rt", "rp", "rtc", "/ruby", "/rtc"}
_GROUPS = {"optgroup", "hr", "/select"}
_OPTIONS = {"option", "/optgroup", "/datalist", *_GROUPS}
_TABLE_PARTS = {"caption", "colgroup", "col", "tbody", "thead", "tfoot", "/table"}
_ROWS = {"tr", "/tbody", "/thead", "/tfoot", *_TABLE_PARTS}
_CELLS = {"td", "th", "/tr", *_ROWS}
_CAPTION = {"tr", "td", "th", *_TABLE_PARTS}
ENDED_BY: Final = {
    "head": frozenset({"body", *_BLOCKS}),
    "p": frozenset({*_BLOCKS, *_PARENTS, *_ITEMS, *_TERMS, *_CELLS}),
    "li": frozenset(_ITEMS),
    "dt": frozenset(_TERMS),
    "dd": frozenset(_TERMS),
    "rb": frozenset(_NOTES),
    "rt": frozenset(_NOTES),
    "rp": frozenset(_NOTES),
    "rtc": frozenset({"rb", "rtc", "/ruby"}),
    "optgroup": frozenset(_GROUPS),
    "option": frozenset(_OPTIONS),
    "caption": frozenset(_CAPTION),
    "colgroup": frozenset(_CAPTION - {"col"}),
    "thead": frozenset(_TABLE_PARTS),
    "tbody": frozenset(_TABLE_PARTS),
    "tfoot": frozenset(_TABLE_PARTS),
    "tr": frozenset(_ROWS),
    "td": frozenset(_CELLS),
    "th": frozenset(_CELLS),
}
"""For each element the tags that end it while no element is open inside it; end tags start with a slash."""
# Python's own HTML parser takes seconds for 10,000 characters of `<a <a <a`; this takes milliseconds.
# A quote that is never closed does not count. Possessive quantifiers prevent backtracking.
_TAG = r"""
    <[!?][^>]*+>
    | <(?P<closing>/?)(?P<name>{initial}[^\s/>]*+)(?P<attributes>(?:"[^"]*+"|'[^']*+'|[^'">])*+|[^>]*+)>
"""
# Sections by their start and end. A section that is never closed extends to the end of the document, as in a
# browser.
_COMMENTS = {"<!--": "-->", r"<!\[CDATA\[": r"\]\]>"}
# In HTML `<!-->` and `<!--->` are whole comments, and `--!>` ends one too:
# https://html.spec.whatwg.org/multipage/parsing.html#comment-start-state.
_HTML_COMMENTS = _COMMENTS | {"<!--": "(?:(?<=<!--)-?>|--!?>)"}
_SCRIPTS = {
    rf"<{name}(?![^\s/>])": rf"</{name}(?![^\s/>])[^>]*+>" for name in ("script", "style", "textarea")
}
# The raised end of a word, as in 1st, XXe, Mme and 1.º, but no letter of a note or formula: dog^a, 10^x.
_BEFORE_END = r"(?:(?<=[^\W_])(?<!(?-i:[^\W\d_A-Z]{2}))|(?<=\d\.))"
_END_OF_WORD = re.compile(
    rf"{_BEFORE_END}\0[aeorªº]\Z|(?<=[^\W_])\.?\0(?!TM\Z|SM\Z)[^\W\d_]{{2,4}}\Z", re.IGNORECASE
)
# What is raised or lowered and no word: numbers, signs, single letters.
_MARKS = r"(?:(?![<>&])[\W\d_]|(?<![^\W\d_])[^\W\d_](?![^\W\d_]))"
_RAISED = (
    rf"(?:(?!{_BEFORE_END}<sup[^<>]*+>[aeorªº]<)"
    rf"<su[bp](?:\s[^<>]*+)?>(?:(?:<(?!/?su[bp])[^<>]*+>|{_MARKS}){{1,40}}+|TM|SM)</su[bp]\s*+>"
    r"|(?<=[^\W_])<sub(?:\s[^<>]*+)?>[^\W_]{1,10}</sub\s*+>)"
)
_MARK = re.compile(rf"{_MARKS}{{1,40}}|TM|SM")
_NOTE = rf"(?:{_RAISED}|<a(?:\s[^<>]*+)?>{_RAISED}</a\s*+>)"
_NAME = re.compile(r"</?([^\s/>]+)")
# The last character of a text and the first one of the next, where a space is missing between them.
_JOINED_WORDS = re.compile(rf"(?:[.,:!?)]|[^\W{UNSPACED_LETTERS}])[^\W{UNSPACED_LETTERS}]")
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_INLINE = frozenset(
    {"a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "img"}
    | {
        "ins",
        "kbd",
        "label",
        "mark",
        "q",
        "s",
        "samp",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "time",
        "tt",
    }
    | {"u", "var", "wbr"}
)


def has_translate_no(attributes: str) -> bool:
    """Returns whether `translate="no"` or the class `notranslate` is among a tag's attributes."""
    # Few tags have the attribute; this check is faster than parsing all attributes.
    if "translate" not in attributes.lower():
        return False
    values = dict[str, str]()
    for attribute in _ATTRIBUTE.finditer(attributes):
        values.setdefault(attribute["name"].lower(), _value(attribute).strip().lower())
    return values.get("translate") == "no" or "notranslate" in values.get("class", "").split()


def is_end_of_word(before: str, raised: str) -> bool:
    """Returns whether raised letters are the end of the word before them, as in 1st, XXe and Mme."""
    return _END_OF_WORD.search(f"{before[-3:]}\0{raised}") is not None


def is_mark(shifted: str) -> bool:
    """Returns whether what is raised or lowered is no word: numbers, signs, single letters; no entity."""
    return _MARK.fullmatch(shifted) is not None


def closes_itself(attributes: str) -> bool:
    """Returns whether a tag ends with a slash that is not part of an unquoted attribute value.

    Browsers ignore the slash of `<x/>` in HTML. Here it makes an element empty, as its author meant it.
    """
    if not attributes.endswith("/"):
        return False
    *_, last = (None, *_ATTRIBUTE.finditer(attributes))
    return last is None or last.end() < len(attributes)


def _value(attribute: re.Match[str]) -> str:
    return attribute["double"] or attribute["single"] or attribute["bare"] or ""


@dataclass(frozen=True, kw_only=True)
class MarkupSyntax:
    """The syntax of a markup language; names of elements are in lower case.

    Attributes:
        tag: Matches a tag or section; of a section that is never closed only its start, as group `endless`;
            group `note` is a whole element that is kept.
        section: Matches the start of a section, such as a comment, which contains neither text nor tags.
        untranslated: Elements whose text is not translated.
        void: Elements without an end tag.
        ended_by: Elements that need no end tag, each with the other tags that end it.
        inline: Elements within a line of text: a sentence may continue across their tags.
        paired: Elements that mark where a format begins, each with the element that marks its end.
        translated: Attributes whose values are translated.
        described: Elements with an attribute that is translated if another one has one of some values: the
            names of the other one, the values, and the name of the attribute.
        placeholders: Elements without content that may stand for a word.
        has_entities: Whether a document may declare entities of its own.
        splitting: If it is not None, elements that text stands beside are inline and, where they have no
            content, placeholders, except these.
    """

    tag: re.Pattern[str]
    section: re.Pattern[str]
    untranslated: frozenset[str] = frozenset()
    void: frozenset[str] = frozenset()
    ended_by: Mapping[str, frozenset[str]] = field(default_factory=dict)
    inline: frozenset[str] = frozenset()
    paired: Mapping[str, str] = field(default_factory=dict)
    translated: frozenset[str] = frozenset()
    described: Mapping[str, tuple[Sequence[str], Sequence[str], str]] = field(default_factory=dict)
    placeholders: frozenset[str] = frozenset()
    has_entities: bool = False
    splitting: frozenset[str] | None = None

    def values(self, tag: str) -> tuple[tuple[int, int], ...]:
        """Returns the spans of a tag's attribute values to translate; they have quotes and letters."""
        found = (_TEXTAREA.match(tag) or self.tag.match(tag)) if self.translated and "=" in tag else None
        if found is None or found["closing"] or not found["name"] or has_translate_no(found["attributes"]):
            return ()
        attributes = list(_ATTRIBUTE.finditer(tag, *found.span("attributes")))
        translated = self.translated
        name = found["name"].lower()
        if name in self.described:
            describing, values, described = self.described[name]
            named = (each for each in attributes if each["name"].lower() in describing)
            is_text = any(_value(each).strip().lower() in values for each in named)
            translated |= {described} if is_text else set()
        quoted = ((each, "single" if each["double"] is None else "double") for each in attributes)
        return tuple(
            each.span(quote)
            for each, quote in quoted
            if each["name"].lower() in translated and any(map(str.isalpha, each[quote] or ""))
        )

    def is_within_line(self, piece: str) -> bool:
        """Returns whether markup is the tag of an inline element, or begins with one."""
        name = _NAME.match(piece)
        return name is not None and name[1].lower() in self.inline

    def ignoring(self, names: Iterable[str]) -> Self:
        """The same syntax, with more untranslated elements."""
        return replace(self, untranslated=self.untranslated | {name.lower() for name in names})

    def outlining(self, splitting: Iterable[str]) -> Self:
        """Returns the same syntax, in which the elements of each document that text stands beside are inline.

        DeepL calls this the detection of a document's outline.

        Args:
            splitting: Elements that are not, wherever they stand.
        """
        return replace(self, splitting=frozenset(map(str.lower, splitting)))

    def outlined(self, source: str) -> Self:
        """Returns the syntax for a document, with those elements inline that `outlining` says."""
        if self.splitting is None:
            return self
        names = self._beside_text(source) - self.splitting
        return replace(self, inline=self.inline | names, placeholders=self.placeholders | names)

    def _beside_text(self, source: str) -> set[str]:
        """Returns the names of elements that directly follow or precede a text outside of them.

        Elements that alone separate two words, such as one<br/>two, are none of these.
        """
        beside, separating = set[str](), set[str]()
        position, before, last = 0, "", " "
        passed: list[tuple[str, bool]] = []  # tags since the last text, and whether they are empty elements
        for tag in (*self.tag.finditer(source, 0, source.rfind(">") + 1), None):
            text = source[position : tag.start() if tag else len(source)]
            name = (tag["name"] or "").lower() if tag else ""
            is_empty = tag is not None and bool(name) and closes_itself(tag["attributes"])
            is_closing = tag is None or bool(tag["closing"])
            if text.strip():
                beside |= {before, "" if is_closing else name}
                if _JOINED_WORDS.fullmatch(last + text[0]):
                    empty = {each for each, is_empty in passed if is_empty}
                    separating |= empty or {each for each, _ in passed}
            if text:
                last, passed = text[-1], []
            if tag:
                passed.append((name, is_empty))
                before = name if is_closing or is_empty else ""
                position = tag.end()
        return beside - separating


def _tag(sections: Mapping[str, str], *, initial: str, note: str = "(?!)") -> re.Pattern[str]:
    """The pattern `MarkupSyntax.tag`; `initial` matches the first character of an element's name."""
    whole = (f"{begin}.*?{end}" for begin, end in sections.items())
    endless = f"(?P<endless>{'|'.join(sections)})"
    return _pattern("|".join((*whole, endless, f"(?P<note>{note})", _TAG.replace("{initial}", initial))))


def _section(sections: Mapping[str, str]) -> re.Pattern[str]:
    return _pattern("|".join(sections))


def _pattern(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.VERBOSE | re.DOTALL | re.IGNORECASE)


# The start tag of the only section with attributes that people read.
_TEXTAREA = _pattern(_TAG.replace("{initial}", "textarea"))
HTML = MarkupSyntax(
    tag=_tag(_HTML_COMMENTS | _SCRIPTS, initial="[a-z]", note=_NOTE),
    section=_section(_HTML_COMMENTS | _SCRIPTS),
    untranslated=frozenset({"code", "kbd", "noscript", "pre", "samp", "template", "tt", "var"}),
    void=_VOID,
    ended_by=ENDED_BY,
    inline=_INLINE,
    translated=frozenset({"alt", "aria-label", "label", "placeholder", "title"}),
    described={
        "meta": (
            ("name", "property"),
            ("description", "og:description", "og:title", "twitter:description", "twitter:title"),
            "content",
        ),
        "input": (("type",), ("submit", "button", "reset"), "value"),
    },
)
XML = MarkupSyntax(
    tag=_tag(_COMMENTS, initial=r"[^\W\d]"),
    section=_section(_COMMENTS),
    has_entities=True,
)
