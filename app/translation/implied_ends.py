"""② Elements of HTML that a browser ends by itself: https://html.spec.whatwg.org/#optional-tags."""

from typing import Final

_BLOCKS = {
    *("address", "article", "aside", "blockquote", "details", "div", "dl", "fieldset", "figcaption"),
    *("figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "main", "menu"),
    *("nav", "ol", "pre", "section", "table", "ul"),
}
_PARENTS = {f"/{name}" for name in {*_BLOCKS, "li", "dt", "dd", "td", "th", "caption", "body", "html"}}
_ITEMS = {"li", "/ul", "/ol", "/menu"}
_TERMS = {"dt", "dd", "/dl"}
_ROWS = {"tr", "tbody", "thead", "tfoot", "/tbody", "/thead", "/tfoot", "/table"}
_CELLS = {"td", "th", "/tr", *_ROWS}
_OPTIONS = {"option", "optgroup", "/optgroup", "/select", "/datalist"}

ENDED_BY: Final = {
    "p": frozenset({"p", *_BLOCKS, *_PARENTS, *_ITEMS, *_TERMS, *_CELLS}),
    "li": frozenset(_ITEMS),
    "dt": frozenset(_TERMS),
    "dd": frozenset(_TERMS),
    "tr": frozenset(_ROWS),
    "td": frozenset(_CELLS),
    "th": frozenset(_CELLS),
    "option": frozenset(_OPTIONS),
}
"""Each with the tags that end it where no element inside it is open; end tags begin with a slash."""
