"""Files come back with their layout, whatever the translations."""

import io
import re
import tracemalloc
import zipfile
from collections.abc import Sequence
from xml.etree import ElementTree

import pytest

from model.errors import TextTooLongError
from model.text.formats.file_text import FileError
from model.text.formats.formats import SUFFIXES, read_file, suffix_of
from tests.model.text.formats.shouting import shout, shouted
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
    assert f"<p>{POLISH.upper()}</p>" in shouted(".html", page.encode("utf-8")).decode()  # an old declaration
    written = shouted(".html", page.encode(charset)).decode()
    assert f"<p>{POLISH.upper()}</p>" in written
    assert charset not in written
    if written.startswith("<?xml"):
        fragment = written.replace("'utf-8'>", "'utf-8'/>").encode()
        assert ElementTree.fromstring(fragment).findtext("p") == POLISH.upper()


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


LOOKS = {
    "^": '<w:rPr><w:vertAlign w:val="superscript"/></w:rPr>',
    "_": '<w:rPr><w:vertAlign w:val="subscript"/></w:rPr>',
    "*": "<w:rPr><w:b/></w:rPr>",
    "▾": '<w:rPr baseline="-25000"/>',
}
MARKS = {
    "#": '<w:footnoteReference w:id="1"/>',
    "§": '<w:endnoteReference w:id="1"/>',
    "‑": "<w:noBreakHyphen/>",
    "~": "<w:softHyphen/>",
}


def runs_from(spelt: str) -> str:
    """Word's runs: `|` ends one, which may begin with a look, and marks stand between its texts."""
    found = ""
    for run in spelt.split("|"):
        pieces = re.split(f"([{''.join(MARKS)}])", run.lstrip("^_*▾"))
        texts = (MARKS.get(piece) or f"<w:t>{piece}</w:t>" for piece in pieces if piece or len(pieces) == 1)
        found += f"<w:r>{LOOKS.get(run[:1], '')}{''.join(texts)}</w:r>"
    return found


def word_paragraph(spelt: str) -> bytes:
    return archive(word__document_xml=f"<w:p>{runs_from(spelt)}</w:p>")


def rebuilt_runs(spelt: str, translations: Sequence[str]) -> str:
    """Word's runs after the translation, without the attributes for spaces."""
    file = read_file(".docx", word_paragraph(spelt), "fr", 10**6)
    part = parts(file.rebuild(translations))["word/document.xml"].replace(' xml:space="preserve"', "")
    return part.removeprefix("<w:p>").removesuffix("</w:p>")


@pytest.mark.parametrize(
    ("translation", "runs"),
    [
        ('<b id="0">la</b> <b id="2">voiture</b> <b id="1">rouge</b>.', "la voiture |*rouge|."),
        ('<b id="1">rouge</b> <b id="0">la</b> <b id="2">voiture</b>', "|*rouge| la voiture"),
        ('la <b id="1">voiture rouge</b> file <b id="2">vite</b>', "la |*voiture rouge| file vite"),
        ('<b id="1">rouge</b> <b id="2">voiture</b>', "|*rouge| voiture"),
        ('<b id="2">voiture</b> <b id="0">la</b>', "voiture la|*|"),
    ],
)
def test_words_keep_their_order_and_most_of_them_their_format(translation: str, runs: str) -> None:
    assert rebuilt_runs("the |*red| car", [translation]) == runs_from(runs)


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


@pytest.mark.parametrize(
    ("source", "text", "translation", "expected"),
    [
        # A hyphen is an element between two texts, in one run or in a run of its own.
        ("well|*‑known", "well-known", "connu", "connu"),
        ("won~der", "wonder", "x", "x"),
        # The number or mark of a note is no word: it does not divide a sentence, and no word crosses it.
        *(
            (
                f"The garden|^{note}| here.",
                '<b id="0">The garden<sup id="1">1</sup> here.</b>',
                '<b id="0">Le jardin<sup id="1">1</sup> ici.</b>',
                f"Le jardin|^{note}| ici.",
            )
            for note in "1#§"
        ),
        # Words that move behind a note at the end stay before it.
        (
            "a red house|^1",
            '<b id="0">a red house<sup id="1">1</sup></b>',
            '<b id="0">une maison<sup id="1">1</sup> rouge</b>',
            "une maison rouge|^1",
        ),
        # Notes at the start stay there, and the words have the look of most of them; spaces stay at words.
        (
            "^#|^#|*one| house",
            '<sup id="0">1</sup><sup id="1">1</sup><b id="2">one</b><b id="3"> house</b>',
            '<b id="3">maison </b><sup id="0">1</sup><sup id="1">1</sup><b id="2">une</b>',
            "^#|^#|*|maison une",
        ),
        (
            "^#|One |dog|^#",
            '<sup id="0">1</sup><b id="1">One dog<sup id="3">1</sup></b>',
            '<b id="1">Un chien<sup id="3">1</sup></b> <sup id="0">1</sup>',
            "^#|Un chien ||^#",
        ),
        ("two|^12-345", '<b id="0">two<sup id="1">12-345</sup></b>', None, "TWO|^12-345"),
        ("two|▾2", '<b id="0">two</b><sub id="1">2</sub>', None, "TWO|▾2"),
        ("two|^1 &amp; 2", '<b id="0">two</b><code id="1">1 &amp; 2</code>', None, "TWO|^1 &amp; 2"),
        (
            "CO|_2",
            '<b id="0">CO</b><sub id="1">2</sub>',
            '<b id="0">Le CO</b><sub id="1">2</sub>',
            "Le CO|_2",
        ),
        # Words behind a note in a bold part are bold.
        (
            "*The dog|^1|* is| my very old friend",
            '<b id="0">The dog<sup id="1">1</sup> is</b><b id="3"> my very old friend</b>',
            '<b id="0">Le chien<sup id="1">1</sup>est</b> <b id="3">mon ami</b>',
            "*Le chien|^1|*est| mon ami",
        ),
        # The end of a word is part of the word.
        ("the 1|^st| day", "the 1st day", "le 1er jour", "le 1er jour|^|"),
        # The letter of a note or formula is kept; raised and lowered words are translated.
        (
            "a dog|^a",
            '<b id="0">a dog<sup id="1">a</sup></b>',
            '<b id="0">un<sup id="1">a</sup></b>',
            "un|^a",
        ),
        (
            "x|_max",
            '<b id="0">x</b><code id="1">max</code>',
            '<b id="0">X</b><code id="1">max</code>',
            "X|_max",
        ),
        ("see|^the note", '<b id="0">see</b><b id="1">the note</b>', None, "SEE|^THE NOTE"),
        ("see.|_note", '<b id="0">see.</b><b id="1">note</b>', None, "SEE.|_NOTE"),
    ],
)
def test_hyphens_and_numbers_of_notes_of_word(
    source: str, text: str, translation: str | None, expected: str
) -> None:
    assert read_file(".docx", word_paragraph(source), "fr", 10**6).texts == (text,)
    assert rebuilt_runs(source, [translation or shout(text)]) == runs_from(expected)


@pytest.mark.parametrize(
    "field",
    [
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>3</w:t></w:r>',
        '<w:fldSimple w:instr="PAGE"><w:r><w:t>3</w:t></w:r>',
    ],
)
def test_the_number_of_a_field_of_word_is_kept(field: str) -> None:
    part = f"<w:p>{runs_from('Page')}{field}{runs_from('here')}</w:p>"
    file = read_file(".docx", archive(word__document_xml=part), "fr", 10**6)
    assert file.texts == ('<b id="0">Page</b><code id="1">3</code><b id="2">here</b>',)
    rebuilt = file.rebuild(['<b id="0">Seite</b><code id="1">3</code><b id="2">hier</b>'])
    expected = part.replace("Page<", "Seite<").replace("here", "hier")
    assert parts(rebuilt)["word/document.xml"] == expected


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
    cut = "</w:t></w:r><w:proofErr w:type='x'/><w:r w:rsidR='1'>"
    language = "<w:rPr><w:lang w:val='en'/></w:rPr>"
    part = (
        f"<w:p><w:r><w:t>Good{cut}{language}<w:t xml:space='preserve'> morn{cut}<w:t>ing"
        f"{cut}{LOOKS['*']}<w:t>, friend</w:t></w:r></w:p>"
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
