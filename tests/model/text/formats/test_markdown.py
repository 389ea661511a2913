"""Markdown comes back with its layout, whatever the translations."""

import pytest

from model.text.formats.formats import read_file
from tests.model.text.formats.shouting import shouted
from tests.model.text.processor_time import at_most

MARKDOWN = """---
title: x
---
# Hello *world* ##

Read the [manual](docs/x.md "t") now, **it is _very_ good**
and `code_x`.\x20\x20
Hard break. Q & A <br>

- item one
  1. [ ] nested [two][ref] a_b_c

```py
code = 1
```

    indented

| a | b |
|---|:-:|
| **one** | two |

> quoted

Title
=====
[ref]: http://x
![alt text](pic_1.png)
"""


def test_markdown_keeps_code_addresses_and_layout() -> None:
    expected = MARKDOWN.upper().replace("\nAND `", " AND `")
    layout = (
        "---\ntitle: x\n---",
        'docs/x.md "t"',
        "[ref]",
        "code = 1",
        "```py",
        "    indented",
        "pic_1.png",
    )
    for kept in layout:
        expected = expected.replace(kept.upper(), kept)
    expected = expected.replace("[ref]: HTTP://X", "[ref]: http://x")
    assert shouted(".md", MARKDOWN.encode()).decode() == expected


def test_formulas_and_definitions_of_markdown_stay() -> None:
    source = "Term\n: What it *means*\n\n$$\nx = y_1 * z_2\n$$\n\nHere $a_1 * b_1$ *or* $5 and $6.\n"
    file = read_file(".md", source.encode(), "fr", 0)
    assert file.texts == (
        "Term",
        'What it <b id="0">means</b>',
        'Here $a_1 * b_1$ <b id="0">or</b> $5 and $6.',
    )
    assert file.rebuild(file.texts).decode() == source


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("$$\nx =\ny $$\n\nText.\n", ("Text.",)),
        ("$$\nx\n\ny\n$$\nText.\n", ("Text.",)),
        ("Price\n\n$$\n\nA cheap place.\n", ("Price", "$$", "A cheap place.")),
    ],
)
def test_a_formula_of_several_lines_ends_at_its_sign_or_is_none(source: str, texts: tuple[str, ...]) -> None:
    file = read_file(".md", source.encode(), "fr", 0)
    assert file.texts == texts
    assert file.rebuild(file.texts).decode() == source


def test_markdown_is_read_in_whole_sentences() -> None:
    texts = read_file(".md", MARKDOWN.encode(), "fr", 0).texts
    assert (
        'Read the <a id="0" title="t">manual</a> now, <b id="2">it is <b id="1">very</b> good</b> '
        "and `code_x`." in texts
    )
    assert 'nested <a id="0">two</a> a_b_c' in texts


def test_emphasis_that_lost_its_words_is_dropped_and_takes_no_marks_of_others() -> None:
    file = read_file(".md", b"**Bold** and *a ~~b~~*[^1]\n", "fr", 0)
    lost = '<b id="0">Gras</b><b id="2"><b id="1"></b></b><b id="3"></b>'
    assert file.rebuild([lost]).decode() == "**Gras**[^1]\n"
    file = read_file(".md", b"Close the **window** now.", "fr", 0)
    assert file.rebuild(['Ferme<b id="0"></b> ici.']) == b"Ferme ici."


def test_titles_of_links_are_translated() -> None:
    source = '![a](b.png \'My "x" & y\') and [c](d "It\'s")\n\n[e]: f "One *two*"\n'
    file = read_file(".md", source.encode(), "fr", 0)
    assert file.rebuild(file.texts).decode() == source
    translated = file.texts[0].replace("It&#x27;s", "&quot;Il&quot;").replace("My", "L'")
    assert file.rebuild([translated, 'Un <b id="0">deux</b>']).decode() == (
        '![a](b.png \'L\\\' "x" & y\') and [c](d "\\"Il\\"")\n\n[e]: f "Un *deux*"\n'
    )


@pytest.mark.parametrize(
    "source", ["", "\n", "**", "[a](", "`a", "| a", "```\nx", "a ** b * c_", "> ", "- ", "#"]
)
def test_markdown_that_is_odd_comes_back(source: str) -> None:
    file = read_file(".md", source.encode(), "fr", 0)
    assert file.rebuild(file.texts).decode() == source


def test_footnotes_of_markdown_stay_behind_their_words() -> None:
    source = "A **bold** word[^1], and more.[^note] [^2]\n\n[^1]: The *note*.\n"
    file = read_file(".md", source.encode(), "fr", 0)
    assert file.texts[0] == (
        'A <b id="0">bold</b> <b id="1">word</b>, and <b id="2">more.</b> <b id="3"></b>'
    )
    assert file.rebuild(file.texts).decode() == source
    moved = 'Un <b id="1">mot</b> <b id="0">gras</b>, et <b id="2">plus.</b> <b id="3"></b>'
    assert (
        file.rebuild([moved, file.texts[1]]).decode().startswith("Un mot[^1] **gras**, et plus.[^note] [^2]")
    )


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("<!--\na comment\n-->\ntext\n", ("text",)),
        ("<script>\nvar x;\n\nvar y;\n</script>\ntext\n", ("text",)),
        ("<pre>\nsome\n    code\n</PRE>\ntext\n", ("text",)),
        ("<style>p {}</style>\ntext\n", ("text",)),
        ("text\n\n    code one\n    code two\n\n    code three\ntext\n", ("text", "text")),
        ("- item\n\n      code one\n      code two\n\n  text\n", ("item", "text")),
        ("1. item\n\n   text\n\n    not code\n", ("item", "text", "not code")),
        ("[^1]: one\n\n    two\n\n        code\n\n    three\n", ("one", "two", "three")),
        ("!!! note\n\n    one\n\n        code\n\ntext\n\n    code\n", ("one", "text")),
        (":::note\nThis is it.\n:::\n", ("This is it.",)),
        ('!!! warning "Be careful"\n    The text.\n', ("Be careful", "The text.")),
        (":::note[One two]{.a}\n::video[Three]\n:::\n", ("One two", "Three")),
        ("::: warning ::::\n", ()),
        (":::tip Good: *news* \nThe text.\n:::\n", ('Good: <b id="0">news</b>', "The text.")),
        ("::: a.module\n\n::: {.kind}\n", ()),
        ('```\n!!! note "Code"\n```\n', ()),
        ("> [!WARNING]\n> The text.\n", ("The text.",)),
        ("> one\n> more\n>> deeper\n", ("one more", "deeper")),
        ("2 * 3 * 4 and *5 * 6\n", ("2 * 3 * 4 and *5 * 6",)),
        ("| a |\n|---|\n| b \\| c |\n", ("a", "b | c")),
        ("if a==b and c==d\n", ("if a==b and c==d",)),
        ("see [text](<a b.html> 'its')\n", ('see <a id="0" title="its">text</a>',)),
        ("==marked== word\n", ('<b id="0">marked</b> word',)),
    ],
)
def test_blocks_of_markdown(source: str, texts: tuple[str, ...]) -> None:
    file = read_file(".md", source.encode(), "fr")
    assert file.texts == texts
    assert file.rebuild(texts).decode().replace(">", "").split() == source.replace(">", "").split()


@pytest.mark.parametrize(
    "piece",
    [
        *("[a](", "![](", "*a ", "`a", "](x(y)", "|-|-\n", "> ", "<a ", "<!--"),
        *("a\n" + " " * 3000 + "x", " ", "\t", "`", "# #"),
    ],
)
def test_hostile_markdown_takes_linear_time(piece: str) -> None:
    with at_most(seconds=5):  # quadratic time would be half a minute
        file = read_file(".md", (piece * (100_000 // len(piece))).encode(), "fr", 0)
        assert file.rebuild(file.texts)


def test_the_labels_of_links_stay_where_their_texts_are_translated() -> None:
    source = "See [the Guide], [Faq][], [no label], [*one*][the guide] and ![the guide].\n"
    source += "\n[The guide]: x\n[faq]: y\n"
    file = read_file(".md", source.encode(), "fr", 0)
    assert file.texts == (
        'See <a id="0">the Guide</a>, <a id="1">Faq</a>, [no label], '
        '<a id="3"><b id="2">one</b></a> and <a id="4">the guide</a>.',
    )
    assert file.rebuild(file.texts).decode() == source
    assert file.rebuild([file.texts[0].replace("uide", "UIDE")]).decode() == source.replace(
        "[the Guide]", "[the GUIDE][the Guide]"
    ).replace("![the guide]", "![the gUIDE][the guide]")


def test_a_link_may_be_a_template_or_hold_a_picture() -> None:
    source = '[a]({{< ref "/x y" >}}) and [b]({% link c.md %}) [![d](e)](f "g") ![h](i) [`j[0]`](k)\n'
    file = read_file(".md", source.encode(), "fr", 0)
    assert file.texts == (
        '<a id="0">a</a> and <a id="1">b</a> <a id="2" title="g">d</a> <a id="3">h</a> <a id="4">`j[0]`</a>',
    )
    assert file.rebuild(file.texts).decode() == source


def test_marks_that_a_network_adds_are_dropped() -> None:
    file = read_file(".md", b"A *word*, `a_b` and 2 ~ 3\n", "fr", 0)
    translation = 'Un* <b id="0">*mot</b>**, `a_b` _et_ 2 ~ 3'
    assert file.rebuild([translation]).decode() == "Un *mot*, `a_b` _et_ 2 ~ 3\n"
