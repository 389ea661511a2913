"""Files come back with their layout, whatever the translations."""

import io
import re
import tracemalloc
import zipfile
from xml.etree import ElementTree

import pytest

from model.errors import TextTooLongError
from model.text.formats.file_text import FileError
from model.text.formats.formats import SUFFIXES, read_file, suffix_of
from tests.model.text.formats.shouting import shouted
from tests.model.text.processor_time import at_most


def test_plain_text_keeps_its_blanks() -> None:
    text = "one\r\ntwo\r\n\r\n  three \n\n\n"
    assert read_file(".txt", text.encode(), "fr", 0).texts == ("one", "two", "three")
    assert shouted(".txt", text.encode()).decode() == text.upper()
    assert shouted(".txt", text.encode("utf-16")).decode() == text.upper()
    for content in (b"\xff\xff", b"a\0b", "Привет".encode("cp1251"), "你好".encode("gbk")):
        with pytest.raises(FileError):
            read_file(".txt", content, "fr", 0)


def test_a_text_in_windows_1252_becomes_utf_8() -> None:
    assert shouted(".txt", "The café – open".encode("cp1252")).decode() == "THE CAFÉ – OPEN"
    page = '<html><meta http-equiv=a content="text/html; charset=iso-8859-1"><p>été</p></html>'
    expected = page.replace("iso-8859-1", "utf-8").replace("été", "ÉTÉ")
    assert shouted(".html", page.encode("latin-1")).decode() == expected


POLISH = "Zażółć gęślą jaźń, było tak"


@pytest.mark.parametrize(
    "start",
    [
        '<html><meta charset="{}">',
        "<!-- <meta charset=koi8-r> --><meta http-equiv=a content='text/html; charset={}'>",
        "<?xml version='1.0' encoding='{}'?><html><meta charset='{}'>",
    ],
)
@pytest.mark.parametrize("charset", ["iso-8859-2", "windows-1250", "UTF-16"])
def test_a_page_is_read_in_the_charset_that_it_declares(charset: str, start: str) -> None:
    page = start.format(charset, charset) + f"<p>{POLISH}</p></html>"
    written = shouted(".html", page.encode(charset)).decode()
    assert f"<p>{POLISH.upper()}</p>" in written
    assert charset not in written
    if written.startswith("<?xml"):
        fragment = written.replace("'utf-8'>", "'utf-8'/>").encode()
        assert ElementTree.fromstring(fragment).findtext("p") == POLISH.upper()


def test_a_page_in_utf_8_whose_declaration_is_old_is_read_in_utf_8() -> None:
    page = f"<html><meta charset=iso-8859-2><p>{POLISH}</p></html>"
    assert f"<p>{POLISH.upper()}</p>" in shouted(".html", page.encode()).decode()


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("utf-8", "été".encode("latin-1")),
        ("ascii", b"\x81"),
        ("no-such", b"a"),
        ("idna", b"a"),
        ("unicode_escape", b"a"),
        ("hex", b"61"),
        ("cp500", b"a"),
    ],
)
def test_a_page_that_is_not_in_the_charset_that_it_declares_is_refused(charset: str, text: bytes) -> None:
    with pytest.raises(FileError, match="charset"):
        read_file(".html", f"<meta charset={charset}>".encode() + text, "fr")


@pytest.mark.parametrize("start", ["<!--", "<meta ", "<meta charset", "<?xml version='1.0' ", "; charset "])
def test_looking_for_a_declaration_takes_linear_time(start: str) -> None:
    page = "<meta " + start * (300_000 // len(start))
    with at_most(seconds=5):  # in quadratic time one of these would take minutes
        assert read_file(".html", page.encode(), "fr").texts == (page,)


@pytest.mark.parametrize("text", ["Tak było wczoraj", "Zażółć gęślą jaźń"])
@pytest.mark.parametrize("charset", ["cp1250", "iso-8859-2"])
def test_a_text_in_another_charset_than_windows_1252_is_refused(charset: str, text: str) -> None:
    for content in (text.encode(charset), b"caf\x81 open"):
        with pytest.raises(FileError, match="UTF-8"):
            read_file(".txt", content, "fr")


def test_a_translated_page_and_book_name_their_language() -> None:
    page = "<!DOCTYPE html><html class=a lang='en' xml:lang=\"en-GB\"><p lang='en'>one</p></html>"
    expected = page.replace("'en' xml", '"fr" xml').replace('"en-GB"', '"fr"').replace("one", "ONE")
    assert shouted(".html", page.encode()).decode() == expected
    package = (
        '<package xml:lang="en"><dc:title id="t" xml:lang="en">one &amp; two</dc:title><dc:title/>'
        "<dc:identifier>x</dc:identifier><dc:creator>a</dc:creator><dc:language>en</dc:language>"
        '<guide><reference href="a" title="one"/><reference href="b"/></guide></package>'
    )
    contents = (
        '<ncx xml:lang="en"><docTitle><text>one</text></docTitle><docAuthor><text>a</text></docAuthor>'
        "<docAuthor /><navLabel>\n<text>one</text></navLabel>"
        "<ncx:docAuthor><ncx:text>a</ncx:text></ncx:docAuthor><ncx:text>one</ncx:text></ncx>"
    )
    book = archive(**{"a.opf": package, "a.ncx": contents, "a.xhtml": page})
    assert parts(shouted(".epub", book)) == {
        "a.opf": package.replace("en<", "fr<")
        .replace('"en"', '"fr"')
        .replace("one", "ONE")
        .replace("two", "TWO"),
        "a.ncx": contents.replace("one", "ONE").replace('"en"', '"fr"'),
        "a.xhtml": expected,
    }


WRAPPED = """\
  The committee met on Thursday to speak about
the budget of the coming year, which is smaller
than everybody had hoped.

> It was late, and the chairman went home before
> anything had been decided.

Dear Sir or Madam,
I have received your letter, thank you very much.

The Old Man and the Sea of the Northern Islands
A Tale of Two Cities of the Southern Continent
"""


def test_lines_that_were_broken_at_a_width_are_one_paragraph() -> None:
    first, quoted, *lines = read_file(".txt", WRAPPED.encode(), "fr", 0).texts
    assert first.endswith(
        "to speak about the budget of the coming year, which is smaller than everybody had hoped."
    )
    assert quoted == "It was late, and the chairman went home before anything had been decided."
    assert lines == WRAPPED.rstrip().split("\n")[7:9] + WRAPPED.rstrip().split("\n")[10:]
    assert shouted(".txt", WRAPPED.encode()).decode() == WRAPPED.upper()
    crlf = WRAPPED.replace("\n", "\r\n")
    assert shouted(".txt", crlf.encode()).decode() == crlf.upper()


def test_a_paragraph_without_spaces_is_joined_without_them() -> None:
    lines = ["委员会星期四开会讨论明年的预算问题这个预算比大家", "希望的要小得多会议开得很晚主席先回家了。"]
    content = "\n".join(lines).encode()
    assert read_file(".txt", content, "en", 0).texts == ("".join(lines),)
    assert shouted(".txt", content).decode() == "\n".join(lines)


def archive(**parts: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, part in parts.items():
            file.writestr(name.replace("__", "/").replace("_xml", ".xml").replace("_xhtml", ".xhtml"), part)
    return buffer.getvalue()


def parts(content: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        assert file.testzip() is None
        return {name: file.read(name).decode() for name in file.namelist()}


WORD = (
    '<w:document><w:body><w:p><w:pPr><w:pStyle w:val="H"/></w:pPr><w:r>'
    '<w:t xml:space="preserve">Hello </w:t></w:r>'
    '<w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">Q &amp; A</w:t></w:r></w:p><w:p/>'
    "<w:p><w:r><w:t>one</w:t><w:tab/><w:t>two</w:t></w:r></w:p></w:body></w:document>"
)


TEXT = (
    '<office:text><text:h>Head</text:h><text:p>one <text:span a="b">bold</text:span>'
    "<text:s/>x</text:p></office:text>"
)


@pytest.mark.parametrize(
    ("suffix", "name", "part", "words"),
    [
        (".docx", "word__document_xml", WORD, ("Hello", "one", "two")),
        (".pptx", "ppt__slides__slide1_xml", WORD.replace("w:", "a:"), ("Hello", "one", "two")),
        (".odt", "content_xml", TEXT, ("Head", "one", "bold", "x<")),
        (".epub", "OEBPS__a_xhtml", "<html><body><p>one <b>two</b></p></body></html>", ("one", "two")),
    ],
)
def test_archives_change_in_their_text_alone(
    suffix: str, name: str, part: str, words: tuple[str, ...]
) -> None:
    content = archive(mimetype="as it was", **{name: part})
    expected = part
    for word in words:
        expected = expected.replace(word, word.upper())
    found = parts(shouted(suffix, content))
    assert list(found.values()) == ["as it was", expected]
    assert found.keys() == parts(content).keys()


def test_runs_of_a_paragraph_are_one_text() -> None:
    file = read_file(".docx", archive(word__document_xml=WORD), "fr", 10**6)
    assert file.texts == ('<b id="0">Hello </b><b id="1">Q &amp; A</b>', "one", "two")
    moved = file.rebuild(['<b id="1">B</b> <b id="0">a < &gt;</b>', "1", "2"])
    assert runs_of(moved)[:2] == ["B a &lt; &gt;", ""]


def runs_of(docx: bytes) -> list[str]:
    return re.findall(r"<w:t(?: [^>]*)?>([^<]*)<", parts(docx)["word/document.xml"])


@pytest.mark.parametrize(
    ("translation", "runs"),
    [
        ('<b id="0">la</b> <b id="2">voiture</b> <b id="1">rouge</b>.', ["la voiture ", "rouge", "."]),
        ('<b id="1">rouge</b> <b id="0">la</b> <b id="2">voiture</b>', ["", "rouge", " la voiture"]),
        ('la <b id="1">voiture rouge</b> file <b id="2">vite</b>', ["la ", "voiture rouge", " file vite"]),
        ('<b id="1">rouge</b> <b id="2">voiture</b>', ["", "rouge", " voiture"]),
        ('<b id="2">voiture</b> <b id="0">la</b>', ["voiture la", "", ""]),
    ],
)
def test_words_keep_their_order_and_most_of_them_their_format(translation: str, runs: list[str]) -> None:
    plain, bold = "<w:r><w:t>{}</w:t></w:r>", "<w:r><w:rPr><w:b/></w:rPr><w:t>{}</w:t></w:r>"
    part = f"<w:p>{plain.format('the ')}{bold.format('red')}{plain.format(' car')}</w:p>"
    file = read_file(".docx", archive(word__document_xml=part), "fr", 10**6)
    assert runs_of(file.rebuild([translation])) == runs


def test_a_paragraph_around_a_note_is_translated() -> None:
    note = (
        "<text:note><text:note-citation>1</text:note-citation>"
        "<text:note-body><text:p>The note.</text:p></text:note-body></text:note>"
    )
    comment = "<office:annotation><text:p>not this</text:p></office:annotation>"
    part = f"<text:p>One{note} two{comment} <text:span>three</text:span>.</text:p>"
    file = read_file(".odt", archive(content_xml=part), "fr", 10**6)
    assert [re.sub("<[^>]*>", "|", text) for text in file.texts] == ["The note.", "|One|| two|| ||three||.|"]
    expected = part
    for word in ("One", "The note", " two", "three"):
        expected = expected.replace(word, word.upper())
    assert parts(shouted(".odt", archive(content_xml=part)))["content.xml"] == expected


SPAN = '<text:span text:style-name="U">'
U = (
    '<style:style style:name="U" style:family="text">'
    '<style:text-properties style:text-position="33% 58%"/></style:style>'
)


@pytest.mark.parametrize(
    ("paragraph", "texts", "translations", "expected"),
    [
        ("A<text:tab/>b<text:line-break/>c", list("Abc"), list("xyz"), "x<text:tab/>y<text:line-break/>z"),
        (
            "Page <text:page-number>1</text:page-number> of<text:s/>it",
            ['<b id="0">Page </b><code id="1">1</code><b id="2"> of it</b>'],
            ['<b id="0">La page</b> <code id="1">1</code> <b id="2">de  lui</b>'],
            "La page <text:page-number>1</text:page-number><text:s/>de <text:s/>lui",
        ),
        (
            "It is <text:date>May</text:date> now.",
            ['<b id="0">It is </b><code id="1">May</code><b id="2"> now.</b>'],
            ['<b id="2">Maintenant</b> <b id="0">c\'est</b> <code id="1">May</code>'],
            "Maintenant c'est <text:date>May</text:date>",
        ),
        (
            'A <draw:frame><svg:title>cat</svg:title></draw:frame> <x:control>here</x:control>',
            ['<b id="0">A </b><b id="1"> </b><b id="2">here</b>'],
            ['<b id="0">Un</b> <b id="2">ici</b>'],
            'Un <draw:frame><svg:title>cat</svg:title></draw:frame><x:control>ici</x:control>',
        ),
        (
            f"{U}dog{SPAN}a</text:span> the 1{SPAN}st</text:span>",
            ['<b id="0">dog<sup id="1">a</sup> the 1st</b>'],
            ['<b id="0">Hund<sup id="1">a</sup> der 1.</b>'],
            f"{U}Hund{SPAN}a</text:span> der 1.{SPAN}</text:span>",
        ),
        ("<text:tracked-changes><text:p>old</text:p></text:tracked-changes>new", ["new"], ["neu"], None),
    ],
)  # fmt: skip
def test_fields_tabs_and_pictures_of_open_documents_stay(
    paragraph: str, texts: list[str], translations: list[str], expected: str | None
) -> None:
    content = archive(content_xml=f"<text:p>{paragraph}</text:p>")
    file = read_file(".odt", content, "fr", 10**6)
    assert list(file.texts) == texts
    expected = paragraph.replace("new", "neu") if expected is None else expected
    assert parts(file.rebuild(translations))["content.xml"] == f"<text:p>{expected}</text:p>"


RAISED = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr>'
NOTE = f'{RAISED}<w:footnoteReference w:id="1"/></w:r>'
BOLD = "<w:r><w:rPr><w:b/></w:rPr>"


@pytest.mark.parametrize(
    ("runs", "text", "translation", "expected"),
    [
        # A hyphen is an element between two texts, in one run or in a run of its own.
        (
            "<w:r><w:t>well</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:noBreakHyphen/><w:t>known</w:t></w:r>",
            "well-known",
            "connu",
            "<w:r><w:t>connu</w:t></w:r>",
        ),
        ("<w:r><w:t>won</w:t><w:softHyphen/><w:t>der</w:t></w:r>", "wonder", "x", "<w:r><w:t>x</w:t></w:r>"),
        # The number of a note is no word.
        (
            f"<w:r><w:t>The garden</w:t></w:r>{RAISED}<w:t>1</w:t></w:r><w:r><w:t> here</w:t></w:r>",
            '<b id="0">The garden<sup id="1">1</sup> here</b>',
            '<b id="0">Ici le jardin<sup id="1">1</sup></b>',
            f"<w:r><w:t>Ici le jardin</w:t></w:r>{RAISED}<w:t>1</w:t></w:r><w:r><w:t></w:t></w:r>",
        ),
        # Nor is the mark of a note: it does not divide a sentence, and no word crosses it.
        *(
            (
                f"<w:r><w:t>The garden</w:t></w:r>{RAISED}{note}</w:r><w:r><w:t> here.</w:t></w:r>",
                '<b id="0">The garden<sup id="1">1</sup> here.</b>',
                '<b id="0">Le jardin<sup id="1">1</sup> ici.</b>',
                f"<w:r><w:t>Le jardin</w:t></w:r>{RAISED}{note}</w:r>"
                '<w:r><w:t xml:space="preserve"> ici.</w:t></w:r>',
            )
            for note in ('<w:footnoteReference w:id="1"/>', '<w:endnoteReference w:id="1"/>')
        ),
        # Words that move behind a note at the end stay before it.
        (
            f"<w:r><w:t>a red house</w:t></w:r>{RAISED}<w:t>1</w:t></w:r>",
            '<b id="0">a red house<sup id="1">1</sup></b>',
            '<b id="0">une maison<sup id="1">1</sup> rouge</b>',
            f"<w:r><w:t>une maison rouge</w:t></w:r>{RAISED}<w:t>1</w:t></w:r>",
        ),
        # Notes at the start stay there, and the words have the look of most of them; spaces stay at words.
        (
            f"{NOTE}{NOTE}{BOLD}<w:t>one</w:t></w:r><w:r><w:t> house</w:t></w:r>",
            '<sup id="0">1</sup><sup id="1">1</sup><b id="2">one</b><b id="3"> house</b>',
            '<b id="3">maison </b><sup id="0">1</sup><sup id="1">1</sup><b id="2">une</b>',
            f"{NOTE}{NOTE}{BOLD}<w:t></w:t></w:r><w:r><w:t>maison une</w:t></w:r>",
        ),
        (
            f"{NOTE}<w:r><w:t>One </w:t></w:r><w:r><w:t>dog</w:t></w:r>{NOTE}",
            '<sup id="0">1</sup><b id="1">One dog<sup id="3">1</sup></b>',
            '<b id="1">Un chien<sup id="3">1</sup></b> <sup id="0">1</sup>',
            f'{NOTE}<w:r><w:t xml:space="preserve">Un chien </w:t></w:r><w:r><w:t></w:t></w:r>{NOTE}',
        ),
        *(
            (
                f"<w:r><w:t>two</w:t></w:r>{run}</w:t></w:r>",
                f'<b id="0">two{element}',
                f'<b id="0">deux{element}',
                f"<w:r><w:t>deux</w:t></w:r>{run}</w:t></w:r>",
            )
            for run, element in (
                (f"{RAISED}<w:t>12-345", '<sup id="1">12-345</sup></b>'),
                (f"{RAISED}<w:t>1 &amp; 2", '</b><code id="1">1 &amp; 2</code>'),
                ('<w:r><w:rPr baseline="-25000"/><w:t>2', '</b><sub id="1">2</sub>'),
            )
        ),
        # Words behind a note in a bold part are bold.
        (
            f"{BOLD}<w:t>The dog</w:t></w:r>{RAISED}<w:t>1</w:t></w:r>{BOLD}<w:t> is</w:t></w:r>"
            "<w:r><w:t> my very old friend</w:t></w:r>",
            '<b id="0">The dog<sup id="1">1</sup> is</b><b id="3"> my very old friend</b>',
            '<b id="0">Le chien<sup id="1">1</sup>est</b> <b id="3">mon ami</b>',
            f"{BOLD}<w:t>Le chien</w:t></w:r>{RAISED}<w:t>1</w:t></w:r>{BOLD}<w:t>est</w:t></w:r>"
            '<w:r><w:t xml:space="preserve"> mon ami</w:t></w:r>',
        ),
        (
            f"<w:r><w:t>CO</w:t></w:r>{RAISED.replace('super', 'sub')}<w:t>2</w:t></w:r>",
            '<b id="0">CO</b><sub id="1">2</sub>',
            '<b id="0">Le CO</b><sub id="1">2</sub>',
            f"<w:r><w:t>Le CO</w:t></w:r>{RAISED.replace('super', 'sub')}<w:t>2</w:t></w:r>",
        ),
        # The end of a word is part of the word.
        (
            f"<w:r><w:t>the 1</w:t></w:r>{RAISED}<w:t>st</w:t></w:r><w:r><w:t> day</w:t></w:r>",
            "the 1st day",
            "le 1er jour",
            f"<w:r><w:t>le 1er jour</w:t></w:r>{RAISED}<w:t></w:t></w:r><w:r><w:t></w:t></w:r>",
        ),
        # The number of a field is kept.
        *(
            (
                f"<w:r><w:t>Page</w:t></w:r>{field}3</w:t></w:r><w:r><w:t>here</w:t></w:r>",
                '<b id="0">Page</b><code id="1">3</code><b id="2">here</b>',
                '<b id="0">Seite</b><code id="1">3</code><b id="2">hier</b>',
                f"<w:r><w:t>Seite</w:t></w:r>{field}3</w:t></w:r><w:r><w:t>hier</w:t></w:r>",
            )
            for field in (
                '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>',
                '<w:fldSimple w:instr="PAGE"><w:r><w:t>',
            )
        ),
        # The letter of a note or formula is not, nor are words that are raised.
        *(
            (
                f"<w:r><w:t>{word}</w:t></w:r>{raised}<w:t>{mark}</w:t></w:r>",
                f'<b id="0">{word}{inner}</b>{outer}',
                f'<b id="0">{word.upper()}{inner}</b>{outer}',
                f"<w:r><w:t>{word.upper()}</w:t></w:r>{raised}<w:t>{mark}</w:t></w:r>",
            )
            for word, raised, mark, inner, outer in [
                ("the dog", RAISED, "a", '<sup id="1">a</sup>', ""),
                ("x", RAISED.replace("super", "sub"), "max", "", '<code id="1">max</code>'),
                ("see", RAISED, "the note", "", '<b id="1">the note</b>'),
                ("see.", RAISED.replace("super", "sub"), "note", "", '<b id="1">note</b>'),
            ]
        ),
    ],
)
def test_hyphens_and_numbers_of_notes_of_word(runs: str, text: str, translation: str, expected: str) -> None:
    file = read_file(".docx", archive(word__document_xml=f"<w:p>{runs}</w:p>"), "fr", 10**6)
    assert file.texts == (text,)
    assert parts(file.rebuild([translation]))["word/document.xml"] == f"<w:p>{expected}</w:p>"


def test_charts_and_diagrams_are_translated() -> None:
    chart = (
        "<a:p><a:r><a:t>title</a:t></a:r></a:p><c:strCache><c:v>label</c:v></c:strCache>"
        "<c:numCache><c:formatCode>General</c:formatCode><c:v>1E-5</c:v></c:numCache>"
    )
    texts = {"ppt/slides/slide1.xml": "", "ppt/charts/chart1.xml": chart, "ppt/diagrams/data1.xml": chart}
    content = archive(**{name.replace("/", "__").replace(".", "_"): part for name, part in texts.items()})
    expected = chart.replace("title", "TITLE").replace("label", "LABEL")
    assert parts(shouted(".pptx", content)) == {name: part and expected for name, part in texts.items()}
    open_chart = {"content.xml": "", "Object 1/content.xml": "<text:p>title</text:p>"}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as target:
        for name, part in open_chart.items():
            target.writestr(name, part)
    found = parts(shouted(".odp", buffer.getvalue()))
    assert found["Object 1/content.xml"] == "<text:p>TITLE</text:p>"


@pytest.mark.parametrize(
    ("suffix", "part"),
    [
        (".docx", "ppt__slides__slide1_xml"),
        (".pptx", "word__document_xml"),
        (".odt", "word__document_xml"),
        (".epub", "content_xml"),
        (".docx", "a_txt"),
    ],
)
def test_an_archive_of_another_kind_is_refused(suffix: str, part: str) -> None:
    with pytest.raises(FileError, match="another kind of archive"):
        read_file(suffix, archive(**{part: "<p>text</p>"}), "fr", 10**6)


def test_a_book_may_have_scripts_and_a_text_document_may_not() -> None:
    page = "<html><body><p>one</p></body></html>"
    book = archive(Scripts__a="x", a_xhtml=page)
    assert parts(shouted(".epub", book)) == {"Scripts/a": "x", "a.xhtml": page.replace("one", "ONE")}
    with pytest.raises(FileError, match="macros"):
        read_file(".odt", archive(Scripts__a="x", content_xml=TEXT), "fr", 10**6)


def test_a_byte_order_mark_hides_no_front_matter() -> None:
    source = "\ufeff---\ntitle: x\n---\n# Head\n"
    assert read_file(".md", source.encode(), "fr", 0).texts == ("Head",)
    assert shouted(".md", source.encode()).decode() == source.replace("Head", "HEAD")


def test_runs_of_one_format_are_one_run() -> None:
    runs = ("Good", " morn", "ing", ", friend")
    bold = "<w:rPr><w:b/></w:rPr>"
    cut = "</w:t></w:r><w:proofErr w:type='x'/><w:r w:rsidR='1'>"
    part = (
        f"<w:p><w:r><w:t>{runs[0]}{cut}<w:rPr><w:lang w:val='en'/></w:rPr><w:t xml:space='preserve'>{runs[1]}"
        f"{cut}<w:t>{runs[2]}{cut}{bold}<w:t>{runs[3]}</w:t></w:r></w:p>"
    )
    file = read_file(".docx", archive(word__document_xml=part), "fr", 10**6)
    assert file.texts == ('<b id="0">Good morning</b><b id="3">, friend</b>',)
    found = parts(file.rebuild(['<b id="0">Bonjour </b><b id="3">ami</b>']))["word/document.xml"]
    assert re.findall(r"<w:t[^>]*>([^<]*)<", found) == ["Bonjour ", "", "", "ami"]
    assert '<w:t xml:space="preserve">Bonjour </w:t>' in found


def test_what_is_no_archive_or_too_large_is_refused() -> None:
    bomb = archive(word__document_xml="a" * 1_000_000)
    with pytest.raises(TextTooLongError, match="MAX_UNPACKED_BYTES: 1000000"):
        read_file(".docx", bomb, "fr", 999_999)
    entities = archive(word__document_xml='<!DOCTYPE a [<!ENTITY b "c">]>')
    macros = archive(word__vbaProject="x")
    renamed = bomb.replace(b"word", b"wurd", 1)
    for content in (b"", b"PK", WORD.encode(), bomb[:-30], entities, macros, renamed):
        with pytest.raises(FileError):
            read_file(".docx", content, "fr", 10**7)


def test_an_encrypted_file_is_refused_as_such() -> None:
    manifest = {"META-INF__manifest_xml": "<manifest:encryption-data/>", "content_xml": "\x01"}
    for suffix, content in ((".docx", b"\xd0\xcf\x11\xe0\xa1\xb1"), (".odt", archive(**manifest))):
        with pytest.raises(FileError, match="is encrypted"):
            read_file(suffix, content, "fr", 10**6)


def test_other_suffixes_are_refused() -> None:
    assert [suffix_of(f"a.b{suffix.upper()}") for suffix in SUFFIXES] == list(SUFFIXES)
    for name in ("a.exe", "a", "", ".md", "a.docm"):
        with pytest.raises(FileError):
            suffix_of(name)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_an_archive_that_declares_less_than_it_holds_is_refused(method: int) -> None:
    buffer, size = io.BytesIO(), 10_000_000
    with zipfile.ZipFile(buffer, "w", method) as target:
        target.writestr("word/document.xml", b"a" * size)
    declared = buffer.getvalue().replace(size.to_bytes(4, "little"), (100).to_bytes(4, "little"))
    tracemalloc.start()
    with pytest.raises(FileError):
        read_file(".docx", declared, "fr", 10**6)
    assert tracemalloc.get_traced_memory()[1] < size // 4
    tracemalloc.stop()


@pytest.mark.parametrize("piece", ["<w:p>", "<w:p ", "<w:t>", "<text:p>", "<text:p ", "<text:p><text:s "])
def test_hostile_archives_take_linear_time(piece: str) -> None:
    part = piece * (100_000 // len(piece))
    for suffix, name in ((".docx", "word__document_xml"), (".odt", "content_xml")):
        with at_most(seconds=5):
            file = read_file(suffix, archive(**{name: part}), "fr", 10**6)
            assert parts(file.rebuild(file.texts)).popitem()[1] == part
