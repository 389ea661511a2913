"""② Elements of HTML whose end tag may be left out, and the tags that end them.

All that https://html.spec.whatwg.org/#optional-tags names but `html` and `body`, behind which nothing comes;
the obsolete `rb` and `rtc` besides. Each ends before the tags that the standard names there and before
others where a browser ends it (a `p` before `<center>`, say), and with the end of a parent that it may have.

Three things are not as in a browser. Nothing ends an element while another one is open inside. A tag counts
also where a browser ignores it, as `</div>` does without `<div>`. `head` and `colgroup` end only at the tags
given here, not at all that cannot stand in them.
"""

from typing import Final

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
"""Each with the tags that end it where no element inside it is open; end tags begin with a slash."""
