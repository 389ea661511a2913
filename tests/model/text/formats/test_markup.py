"""Markup comes back unchanged; every text between tags is found."""

import dataclasses
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.text.formats.markup import Markup
from model.text.formats.markup_syntax import HTML, XML, MarkupSyntax
from model.text.tags import closing_tag, kept_tag, note_tag, opening_tag, point_tag, without_tags
from tests.model.text.processor_time import at_most

TAGS = ["<p>", "</p>", "<b>", "</b>", "<b", "<br/>", "<a href='x>y'>", "</"]
OTHER_MARKUP = [
    *("<script>", "</script>", "<pre>", "</pre>", "<!-- c -->", "<!--", "-->", "--!>", "<![CDATA[x]]>"),
    *("<!doctype html>", "<?pi?>", "&amp;", "&#233;", "&bogus", "&bogus;"),
]
PIECES = st.sampled_from([*TAGS, *OTHER_MARKUP, "<", ">", "word", " ", "\n", "é"])


KINDS = {opening_tag: "{", closing_tag: "}", point_tag: "|", kept_tag: "@", note_tag: "^"}


def readable(text: str) -> str:
    """The text with a sign for each kind of tag."""
    if "\U000f0000 " in text:
        return text
    return text.translate({ord(kind(number)): sign for kind, sign in KINDS.items() for number in range(99)})


@given(st.lists(PIECES, max_size=30).map("".join), st.sampled_from([HTML, XML, XML.ignoring(["p"])]))
def test_untranslated_markup_is_unchanged(source: str, syntax: MarkupSyntax) -> None:
    markup = Markup.split(source, syntax)
    assert "".join(piece for piece, _ in markup.pieces) == source
    assert markup.rebuild(markup.texts) == source


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("plain", ("plain",)),
        ("", ()),
        ("<p>one <b>two</b>\nthree</p>", ("one {two}\nthree",)),
        ("<p>one <a href='x'><i>two</i></a> three", ("one {{two}} three",)),
        ("<p>one <b>two</b> <!-- x -->three<br>four", ("one {two} ", "three", "four")),
        ("<p>use <code>a<i>b</i></code> or <span translate=no>c</span>.", ("use @ or @.",)),
        ("<p><code>a</code> is <b><code>b</code></b></p>", ("@ is {@",)),
        ("<p>one <b>two</b> &#xf0000; three", ("one ", "two", " \U000f0000 three")),
        ("<p>one <img src=x>two <i/>three</b> four", ("one |two |three} four",)),
        ("a &lt;b&gt; &eacute; c", ("a <b> é c",)),
        ("<script>x</script>y<style>z</style>", ("y",)),
        ("<style-card>x</style-card><script:a>y</script:a>z", ("x", "y", "z")),
        ("<textarea\n>x</textarea><script/>y</script>z", ("z",)),
        ('<textarea placeholder="a">x <b title="x">x</b></textarea>b<script title="x"></script>', ("a", "b")),
        ('<p translate="no">x<b>y</b></p>z', ("z",)),
        ('<p translate="no">x<br>y</p>z', ("z",)),
        ("a<sup>1</sup>, H<sub>2</sub>O b <sup><a href=x><i>[</i>2</a></sup>", ("a@, H@O b @",)),
        (
            "It<sup>2</sup> is <b>so</b><sup>3</sup>,<a href=x><sup>4</sup></a> 猫<sup>5</sup>好",
            ("It^ is {so}^,^ 猫^好",),
        ),
        (
            "5 km<sup>2</sup> of CO<sub>2</sub>, in<sup>1</sup>s is<sub>1</sub> <b><sup>2</sup></b>",
            ("5 km@ of CO@, in@s is@ {@",),
        ),
        ("the 1<sup>st</sup> <sub>été</sub> <b>2<sup>nd</sup></b> one", ("the 1{st} {été} {2{nd}} one",)),
        ("XX<sup>e</sup> M<sup>me</sup> 1.<sup>o</sup> n<sup>o</sup> 5", ("XX{e} M{me} 1.{o} n{o} 5",)),
        (
            "dog<sup>a, b</sup> is.<sup><a href=x>[a]</a></sup> A<sup>TM</sup> 10<sup>x</sup> y<sub>mn</sub>",
            ("dog^ is.^ A@ 10@ y@",),
        ),
        ("So <sup>it is</sup> <sub>so</sub> <sup>a</sup> b", ("So {it is} {so} @ b",)),
        ('<input type="submit" value="Send"><input type=text value="x"><input value="y">', ("Send",)),
        ("<p title='translate=no' data-translate=no>x</p><p TRANSLATE = No>y</p>", ("translate=no", "x")),
        ("<a translate=no href=http://x.org/>x</a><b translate=no />y", ("@|y",)),
        ("<p translate=no>x<p>y", ("y",)),
        ("<div><p translate=no>x<b>x</b></div>y<P translate=no>x<hr>z", ("y", "z")),
        ("<ul><li translate=no>x<ul><li>x</ul>x<p>x<li>y</ul>z", ("y", "z")),
        ("<ul><li translate=no>x</ul>y", ("y",)),
        ("<table><tr><td translate=no>x<td>y<tr translate=no><td>x<td>x</table>z", ("y", "z")),
        ("<dl><dt translate=no>x<dd>y</dl><select><option translate=no>x<option>z", ("y", "z")),
        ("<div translate=no>x<p>x<p>x</section>x</div>y", ("y",)),
        ("<code>x<p>x</div>x<p>x</code>y", ("@y",)),
        ("<code>x</code> in <pre>y</pre>", ("@ in ",)),
        ("<kbd>x</kbd>, <samp>x</samp>, <tt>x</tt> in <var>y</var>", ("@, @, @ in @",)),
        ("<!-- x -->y", ("y",)),
        ("<!-- x --!>y", ("y",)),
        ("<!-->y", ("y",)),
        ("<!--->y-->z", ("y-->z",)),
        ("<!---->y", ("y",)),
        ("<!--!>x<!-->y", ("y",)),
        ("<!---!>x-- >x->x-->y", ("y",)),
        ("<!-- x --!>y<!-->z<!-- x", ("y", "z")),
        ("5 < 6 and 7 > 6", ("5 < 6 and 7 > 6",)),
        ('<img alt="1">y', ("y",)),
        ('<optgroup label="a"><option label="b" value="x">c<track label="d" kind="x">', ("a", "b", "c", "d")),
        ('<p title="t">a <img alt="x &lt; y" src="z"> b</p>', ("t", "x < y", "a | b")),
        ("<input placeholder='Your name' value='v'><a aria-label=x title>y</a>", ("Your name", "y")),
        ('<meta name="description" content="d"><meta name="other" content="o">', ("d",)),
        ('<p title="no" translate="no">a</p><b title="no" class="x NoTranslate">b</b> c', ("@ c",)),
    ],
)
def test_texts_of_html(source: str, texts: tuple[str, ...]) -> None:
    assert tuple(map(readable, Markup.split(source).texts)) == texts


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("<doc><T1>one</T1> two<br/>three</doc>", ("one", " two", "three")),
        ("<script>x</script>y<code>z</code>", ("x", "y", "z")),
        ("<?xml version='1.0'?><é:a b='>'>x</é:a><_c>y</_c>", ("x", "y")),
        ("<![CDATA[a < b]]>x<!-- y -->", ("x",)),
        ("<!-->y--!>y--->x", ("x",)),
        ("Tom &amp; Jerry", ("Tom & Jerry",)),
        ('<p translate="no">x</p>z', ("z",)),
        ('<p translate="no">x<p>x</p>x</p>z', ("z",)),
        ("one <x>two <b>three</b> <X/></x> four", ("one ", " four")),
        ("one <x id='1'/> two", ("one ", " two")),
    ],
)
def test_texts_of_xml(source: str, texts: tuple[str, ...]) -> None:
    assert Markup.split(source, XML.ignoring(["x"])).texts == texts


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("<T>one <E>two</E> three</T> <T><P/>four</T>", ("one {two} three", " ", "four")),
        ("<a>one</a>, <b>two</b> <c/>three <d/><!-- x --><i>four</i>", ("one}, {two} |three @", "four")),
        ("one <b>two</b><br/>three.<br/>Four", ("one {two", "three.", "Four")),
        ("<a>one</a>two <b>three</b> <n>4</n>th", ("one", "two {three} ", "4", "th")),
        ("一<b>二</b>三<br/>四, <x>five</x>, <b>l'</b>六", ("一{二}三|四, @, {l'}六",)),
        ("one <x>two</x> <e>three</e> <s>four</s> five", ("one @ ", "three", " ", "four", " five")),
        ("one", ("one",)),
    ],
)
def test_elements_of_xml_beside_text_are_inline_where_that_is_wanted(
    source: str, texts: tuple[str, ...]
) -> None:
    syntax = XML.ignoring(["x"]).outlining(["S"])
    page = Markup.split(source, syntax)
    assert tuple(map(readable, page.texts)) == texts
    assert page.rebuild(page.texts) == source


@pytest.mark.parametrize(
    "section", ["<!-- x", "<!--", "<!--x->", "<![CDATA[x", "<!-- <b>x</b> y", "<![CDATA[x > y]>"]
)
@pytest.mark.parametrize("syntax", [HTML, XML])
def test_an_open_section_has_no_text(section: str, syntax: MarkupSyntax) -> None:
    assert Markup.split(f"<p>one</p>two{section}", syntax).texts == ("one", "two")


@pytest.mark.parametrize("name", ["script", "style", "textarea", "SCRIPT"])
def test_an_open_script_has_no_text(name: str) -> None:
    for section in (
        f"<{name}",
        f"<{name}>x",
        f"<{name} a='b'>x <b>y</b> </{name}-z> > z",
        f"<{name}>x</{name}",
    ):
        assert Markup.split(f"<p>one</p>two{section}").texts == ("one", "two")
        assert Markup.split(f"two{section}").texts == ("two",)


def test_more_elements_can_be_untranslated() -> None:
    syntax = HTML.ignoring(["B"])
    page = Markup.split("<code>x</code><b>y</b><i>z</i>", syntax)
    assert list(map(readable, page.texts)) == ["@@{z"]


@pytest.mark.parametrize(
    ("source", "translations", "expected"),
    [
        ("<p>x</p>", ["a < b & <i>"], "<p>a &lt; b &amp; &lt;i&gt;</p>"),
        ("<p>&eacute;</p>x", ["é", "y"], "<p>&eacute;</p>y"),
        ("<p>Open \ue000 menu</p>", ["Ouvrez \ue000 le menu"], "<p>Ouvrez \ue000 le menu</p>"),
    ],
)
def test_translations_never_become_markup_and_unchanged_texts_keep_their_references(
    source: str, translations: list[str], expected: str
) -> None:
    assert Markup.split(source).rebuild(translations) == expected


def test_tags_stand_where_their_characters_stand() -> None:
    page = Markup.split("<p>A <b>second</b> <i>&lt; third</i> <br><u>x")
    (text, _) = page.texts
    opening, closing, inner, last = (tag.mark for tag in without_tags(text)[1])
    assert readable(text) == "A {second} {< third} "
    rebuilt = page.rebuild([f"{inner}1{opening}2 & 3{closing}{last} ", "y"])
    assert rebuilt == "<p><i>1<b>2 &amp; 3</b></i> <br><u>y"


def test_an_entity_that_an_xml_document_declares_stays() -> None:
    page = Markup.split("<p>&brand; is &eacute; &amp; good.</p>&brand;", XML)
    (text,) = page.texts
    assert readable(text) == "@ is é & good."
    assert page.rebuild([f"{text[0]} est é & bon."]) == "<p>&brand; est é &amp; bon.</p>&brand;"
    assert Markup.split("<p>&brand; is</p>", HTML).texts == ("&brand; is",)


def test_a_beginning_ends_with_its_last_text() -> None:
    page = Markup.split("<p>a</p><div>b</div>c <i>d</i> e")
    assert list(map(readable, page.texts)) == ["a", "b", "c {d} e"]
    opening = page.texts[2][2]
    assert [page.beginning(("x", "y", f"z {opening}z")[:count]) for count in range(4)] == [
        "", "<p>x", "<p>x</p><div>y", "<p>x</p><div>y</div>z <i>z",
    ]  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join), st.data())
def test_no_beginning_is_revoked(source: str, data: st.DataObject) -> None:
    page = Markup.split(source)
    endings = data.draw(st.lists(st.sampled_from(["", "", "x", "&"]), min_size=9, max_size=9))
    texts = [run + endings[index % 9] for index, run in enumerate(page.texts)]
    whole = page.rebuild(texts)
    for count, text in enumerate(texts):
        for end in range(len(text) + 1):
            assert whole.startswith(page.beginning([*texts[:count], text[:end]]))


def test_a_text_that_may_be_unchanged_keeps_its_character_references() -> None:
    page = Markup.split("<p>T&#111;m &lt;</p>")
    assert [page.beginning([text]) for text in ("T", "To", "Tom <", "Tom <x", "Ta")] == [
        "<p>T", "", "", "<p>Tom &lt;x", "<p>Ta",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "piece",
    [
        *("<", "<a ", "<a b='", "<!--", "</", "<script>", "<a '>", "<a \"'>", "&", "<p>", "<code>", "<!-->"),
        *("<!--->", "<!-- --!", "--!>", "<!--!>", "<script", "<![CDATA[", "</script", "<script></script"),
    ],
)
@pytest.mark.parametrize("syntax", [HTML, XML, XML.outlining([])])
def test_no_input_takes_quadratic_time(piece: str, syntax: MarkupSyntax) -> None:
    source = (piece * 10_000)[:10_000]
    with at_most(seconds=5):  # quadratic time would be 12 seconds and more
        assert Markup.split(source, syntax).rebuild(Markup.split(source, syntax).texts) == source


def test_stray_end_tags_in_untranslated_elements_take_linear_time() -> None:
    source = "<code>" + "<i>" * 30_000 + "</b>" * 30_000
    with at_most(seconds=3):  # quadratic time would be 10 seconds and more
        assert Markup.split(source).texts == ()


@given(st.text(st.sampled_from("ab \n\t\x7f\x85\x81\0<"), max_size=8), st.integers(0, 0xA0))
def test_control_references_stay_references(text: str, code: int) -> None:
    source = f"<p>{text}&#{code};&Tab;&NewLine;x</p>"
    markup = Markup.split(source)
    rebuilt = markup.rebuild([run + "!" for run in markup.texts])
    assert controls(rebuilt) <= controls(source)
    assert Markup.split(rebuilt).texts == tuple(run + "!" for run in markup.texts)


@pytest.mark.parametrize("reference", ["&#1;", "&#x1F;", "&#X000b", "&#127;", "&#129;"])
def test_no_reference_to_a_control_is_lost(reference: str) -> None:
    markup = Markup.split(f"x{reference}")
    control = markup.texts[0][1:]
    assert len(controls(control)) == 1
    assert markup.rebuild([f"y{control}"]) == f"y&#{ord(control)};"


@pytest.mark.parametrize(
    ("spelt", "text"),
    [
        *(
            ("&#0;", "\ufffd"),
            ("&#xD800;", "\ufffd"),
            ("&#128;", "€"),
            ("&#38;amp;", "&amp;"),
            ("&#;", "&#;"),
        ),
        *(("&#65x", "Ax"), ("&#" + "0" * 5000 + "65;", "A"), ("&#x" + "0" * 5000 + "41;", "A")),
        *(("&#" + "9" * 5000 + ";", "\ufffd"), ("&#x" + "9" * 5000, "\ufffd"), ("&#xFFFE;", "\ufffe")),
    ],
    ids=lambda value: value[:12],
)
def test_character_references_are_resolved(spelt: str, text: str) -> None:
    assert Markup.split(spelt).texts == (text,)


def controls(text: str) -> set[str]:
    return {character for character in text if unicodedata.category(character) == "Cc"}


def test_elements_that_mark_begin_and_end_are_a_pair() -> None:
    syntax = dataclasses.replace(
        XML, inline=frozenset({"b", "e", "x"}), untranslated=frozenset({"b", "e"}), paired={"b": "e"}
    )
    page = Markup.split("<p>one <b>&lt;i></b>two<e>&lt;/i></e> <e/> three</p>", syntax)
    assert list(map(readable, page.texts)) == ["one {two} } three"]
    assert page.rebuild(page.texts) == "<p>one <b>&lt;i></b>two<e>&lt;/i></e> <e/> three</p>"


def test_the_values_of_attributes_are_translated() -> None:
    source = """<p title='a "b"'>c <img alt="d"> <i>e</i></p><br title="f">"""
    page = Markup.split(source)
    assert list(map(readable, page.texts)) == ['a "b"', "d", "c | {e", "f"]
    rebuilt = page.rebuild(["it's <A>", '"D"', page.texts[2], "F"])
    assert (
        rebuilt == """<p title='it&#x27;s &lt;A&gt;'>c <img alt="&quot;D&quot;"> <i>e</i></p><br title="F">"""
    )
    assert page.beginning(["it", "D"]) == ""
    assert page.beginning(["it", "D", page.texts[2] + "!"]) == """<p title='it'>c <img alt="D"> <i>e!"""
    assert Markup.split(source, XML).texts[0] == "c "
