"""Where an element ends whose end tag was left out: all of it is left alone, and no more."""

import pytest

from app.translation.markup import Markup
from app.translation.markup_syntax import ENDED_BY


@pytest.mark.parametrize(
    "tag",
    [
        *("address", "article", "aside", "blockquote", "details", "dialog", "div", "dl", "fieldset"),
        *(
            "figcaption",
            "figure",
            "footer",
            "form",
            "h1",
            "h6",
            "header",
            "hgroup",
            "hr",
            "main",
            "menu",
            "nav",
        ),
        *("ol", "p", "search", "section", "table", "ul", "center", "summary", "li", "dd"),
        *("/article", "/hgroup", "/search", "/dialog", "/li", "/td", "/button", "/object", "/body"),
    ],
)
def test_a_paragraph_ends_before_blocks_and_with_its_parent(tag: str) -> None:
    assert texts(f"<p translate=no>x<b>x</b>x<{tag}>y") == "y"


@pytest.mark.parametrize("tag", ["b", "a", "span", "br", "button", "/a", "/b", "/ins"])
def test_a_paragraph_goes_on_behind_what_may_stand_in_it(tag: str) -> None:
    assert texts(f"<p translate=no>x<{tag}>x</p>y") == "y"


@pytest.mark.parametrize(
    ("source", "translated"),
    [
        ("<head translate=no><title>x</title><meta><body>y", "y"),
        ("<head translate=no><title>x</title><h1>y", "y"),
        ("<menu><li translate=no>x<li>y<li translate=no>x</menu>z", "yz"),
        ("<dl><dt translate=no>x<dt>y<dd translate=no>x<dt>y<dd translate=no>x</dl>z", "yyz"),
        ("<dl><div><dt>y<dd translate=no>x<div>x</div>x</div><div><dt>z</div></dl>", "yz"),
        ("<ruby>y<rt translate=no>x<rp>y<rt translate=no>x<rt>y<rp translate=no>x<rt>y</ruby>z", "yyyyz"),
        ("<ruby>y<rp translate=no>x</ruby>z<ruby><rt translate=no>x</ruby>z", "yzz"),
        ("<ruby><rb translate=no>x<rt>y<rtc translate=no>x<rt>x<rtc>y<rtc translate=no>x</ruby>z", "yyz"),
        ("<select><option translate=no>x<option>y<option translate=no>x<hr><option>z</select>", "yz"),
        ("<select><optgroup><option translate=no>x<optgroup><option>y</select>", "y"),
        ("<select><optgroup translate=no><option>x<option>x<optgroup><option>y</select>", "y"),
        ("<select><optgroup translate=no><option>x<hr><option>y</select>", "y"),
        ("<select><optgroup translate=no><option>x</select>y", "y"),
        ("<datalist><option translate=no>x</datalist>y", "y"),
        ("<table><caption translate=no>x<tr><td>y</table>", "y"),
        ("<table><caption translate=no>x<colgroup><col><tbody><tr><td>y</table>", "y"),
        ("<table><caption translate=no><p>x<thead><tr><th>y</table>", "y"),
        ("<table><colgroup translate=no><col><col><tr><td>y</table>", "y"),
        ("<table><colgroup translate=no><col><colgroup><col><thead><tr><th>y</table>", "y"),
        ("<table><thead translate=no><tr><th>x<tr><th>x<tbody><tr><td>y</table>", "y"),
        ("<table><tbody translate=no><tr><td>x<tbody><tr><td>y<tbody translate=no><tr><td>x</table>z", "yz"),
        ("<table><tbody translate=no><tr><td>x<tfoot><tr><td>y</table>", "y"),
        ("<table><tfoot translate=no><tr><td>x</table>y", "y"),
        ("<table><tr translate=no><td>x<td>x<tr><td>y<tr translate=no><td>x<tbody><tr><td>z</table>", "yz"),
        (
            "<table><tr><td translate=no>x<th>y<th translate=no>x<td>y<td translate=no>x<tr><td>z</table>",
            "yyz",
        ),
        ("<table><tr><th translate=no>x<tfoot><tr><td>y<td translate=no>x</table>z", "yz"),
    ],
)
def test_an_element_ends_with_the_next_one_of_its_kind_or_with_its_parent(
    source: str, translated: str
) -> None:
    assert texts(source) == translated


@pytest.mark.parametrize(
    "source",
    [
        "<td translate=no>x<table><caption>x<tr><td>x<tr><td>x</table>x</td>y",
        "<li translate=no>x<ol><li>x<li>x</ol>x</li>y",
        "<dd translate=no>x<dl><dt>x<dd>x</dl>x</dd>y",
        "<tbody translate=no><tr><td>x<tr><td>x</tbody>y",
        "<optgroup translate=no><option>x<option>x</optgroup>y",
        "<rt translate=no>x<ruby>x<rt>x</ruby>x</rt>y",
    ],
)
def test_what_stands_inside_ends_nothing_outside(source: str) -> None:
    assert texts(source) == "y"


def test_all_elements_of_the_standard_are_there_but_those_that_nothing_follows() -> None:
    optional = {
        *("head", "li", "dt", "dd", "p", "rt", "rp", "optgroup", "option", "colgroup", "caption"),
        *("thead", "tbody", "tfoot", "tr", "td", "th"),
    }
    assert set(ENDED_BY) == optional | {"rb", "rtc"}


def texts(source: str) -> str:
    """All that is to be translated."""
    return "".join(Markup.split(source).texts)
