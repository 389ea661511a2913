"""Attributes, and missing end tags, mean what they mean to a browser."""

import pytest

from model.text.formats.markup import Markup
from model.text.formats.markup_syntax import ENDED_BY, closes_itself, has_translate_no
from tests.model.text.processor_time import at_most


@pytest.mark.parametrize(
    ("attributes", "is_untranslated"),
    [
        *((each, True) for each in (' translate="no"', " translate='no'", " translate=no")),
        *((each, True) for each in (" TRANSLATE = 'No' ", " a translate=no", "/translate=no")),
        *((each, True) for each in (" a=b/ translate=no", " a='>'translate=no")),
        (' translate="no" translate="yes"', True),
        *((each, False) for each in ("", " translate", " translate=yes", ' translate=""')),
        *((each, False) for each in (" translate=nobody", ' translate="no way"', ' title="translate=no"')),
        *((each, False) for each in (" title=translate=no", " title='a translate=no b'", " x:translate=no")),
        *((each, False) for each in (" data-translate=no", " translate=no/", " translate=no.")),
        *((each, False) for each in (" translate = 'no", ' translate="yes" translate="no"')),
        (' title="translate=no', False),
    ],
)
def test_translate_no_is_found_among_attributes(attributes: str, is_untranslated: bool) -> None:
    assert has_translate_no(attributes) is is_untranslated


@pytest.mark.parametrize(
    ("attributes", "is_closed"),
    [
        *((each, True) for each in ("/", " /", " a/", " a=b /", " a='b'/", ' a="b/"/', " href='/' b/")),
        *((each, False) for each in ("", " a", " a=b", " a=b/", " href=http://x.org/", " a='b' href=/")),
        (" a='/'", False),
    ],
)
def test_a_slash_closes_an_element_unless_it_belongs_to_a_value(attributes: str, is_closed: bool) -> None:
    assert closes_itself(attributes) is is_closed


@pytest.mark.parametrize(
    "piece", ["a", " ", "=", "a ", "a= ", "='", '="', "'\"", "a='", "/", "translate", "translate="]
)
def test_no_attributes_take_long(piece: str) -> None:
    attributes = f"translate {piece * 100_000}/"
    with at_most(seconds=5):  # quadratic time would be minutes
        has_translate_no(attributes)
        closes_itself(attributes)


@pytest.mark.parametrize(
    "tag",
    [
        *("address", "article", "aside", "blockquote", "details", "dialog", "div", "dl", "fieldset"),
        *("figcaption", "figure", "footer", "form", "h1", "h6", "header", "hgroup", "hr", "main", "menu"),
        *("nav", "ol", "p", "search", "section", "table", "ul", "center", "summary", "li", "dd"),
        *("/article", "/hgroup", "/search", "/dialog", "/li", "/td", "/button", "/object", "/body"),
    ],
)
def test_a_paragraph_ends_before_blocks_and_with_its_parent(tag: str) -> None:
    assert texts(f"<p translate=no>x<b>x</b>x<{tag}>y") == "y"


@pytest.mark.parametrize("tag", ["b", "a", "span", "br", "button", "/a", "/b", "/ins"])
def test_a_paragraph_continues_after_inline_tags(tag: str) -> None:
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
def test_an_element_inside_does_not_end_its_parent(source: str) -> None:
    assert texts(source) == "y"


def test_all_elements_of_the_standard_are_covered() -> None:
    optional = {
        *("head", "li", "dt", "dd", "p", "rt", "rp", "optgroup", "option", "colgroup", "caption"),
        *("thead", "tbody", "tfoot", "tr", "td", "th"),
    }
    assert set(ENDED_BY) == optional | {"rb", "rtc"}


def texts(source: str) -> str:
    """All text to translate."""
    return "".join(Markup.split(source).texts)
