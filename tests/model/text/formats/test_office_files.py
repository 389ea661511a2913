"""Files of office programs, opened again by the libraries that wrote them, and by LibreOffice."""

import io
import re
import shutil
import subprocess
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import docx
import pptx
import pytest
from docx.oxml.ns import qn
from docx.oxml.parser import OxmlElement
from docx.text.paragraph import Paragraph
from ebooklib import epub
from odf import table, teletype
from odf.opendocument import OpenDocumentText, load
from odf.text import H, List, ListItem, P, Span

from model.text.formats.archives import archived
from tests.model.text.formats.shouting import shouted


def link(paragraph: Paragraph, text: str, address: str) -> None:
    """Add a link to a paragraph, for which python-docx has no function."""
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink"
    relation = paragraph.part.relate_to(address, kind, is_external=True)
    element, run, words = OxmlElement("w:hyperlink"), OxmlElement("w:r"), OxmlElement("w:t")
    element.set(qn("r:id"), relation)
    words.text = text
    run.append(words)
    element.append(run)
    paragraph._p.append(element)


def word_file() -> bytes:
    document = docx.Document()
    document.add_heading("The title", 1)
    paragraph = document.add_paragraph("Some ")
    paragraph.add_run("bold").bold = True
    paragraph.add_run(" words & ")
    link(paragraph, "a link", "https://example.org/page")
    for item in ("first", "second"):
        document.add_paragraph(item, style="List Bullet")
    cells = document.add_table(rows=2, cols=2).rows
    for row, cell in ((0, 0), (0, 1), (1, 0), (1, 1)):
        cells[row].cells[cell].text = f"cell {row} {cell}"
    document.sections[0].header.paragraphs[0].text = "the header"
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def text_file() -> bytes:
    document = OpenDocumentText()
    document.text.addElement(H(outlinelevel=1, text="The title"))
    paragraph = P(text="Some ")
    paragraph.addElement(Span(text="bold"))
    paragraph.addText(" words & more")
    document.text.addElement(paragraph)
    items = List()
    for text in ("first", "second"):
        item = ListItem()
        item.addElement(P(text=text))
        items.addElement(item)
    document.text.addElement(items)
    grid, row = table.Table(name="T"), table.TableRow()
    cell = table.TableCell()
    cell.addElement(P(text="cell"))
    row.addElement(cell)
    grid.addElement(row)
    document.text.addElement(grid)
    return saved(document.write)


def saved(write: Callable[[io.BytesIO], object]) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def test_a_word_file_keeps_its_structure() -> None:
    before = docx.Document(io.BytesIO(word_file()))
    after = docx.Document(io.BytesIO(shouted(".docx", word_file())))
    styles = [(paragraph.style.name, paragraph.text.upper()) for paragraph in before.paragraphs]
    assert [(paragraph.style.name, paragraph.text) for paragraph in after.paragraphs] == styles
    assert styles[0] == ("Heading 1", "THE TITLE")
    assert [(run.text, run.bold) for run in after.paragraphs[1].runs][1] == ("BOLD", True)
    links = after.paragraphs[1].hyperlinks
    assert [(each.text, each.address) for each in links] == [("A LINK", "https://example.org/page")]
    cells = [cell.text for row in after.tables[0].rows for cell in row.cells]
    assert cells == ["CELL 0 0", "CELL 0 1", "CELL 1 0", "CELL 1 1"]
    assert after.sections[0].header.paragraphs[0].text == "THE HEADER"


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (("I ", "love", " you."), ((0, "Ich"), (1, "liebe"), (2, "dich.")), ["Ich ", "liebe", " dich."]),
        (("I", "love ", "you."), ((0, "Ich"), (1, "liebe"), (2, "dich.")), ["Ich ", "liebe", " dich."]),
    ],
)
def test_the_space_beside_a_bold_word_is_not_bold(
    source: tuple[str, str, str], target: Sequence[tuple[int, str]], expected: list[str]
) -> None:
    document = docx.Document()
    paragraph = document.add_paragraph()
    for place, text in enumerate(source):
        paragraph.add_run(text).bold = place == 1 or None
    file = archived(".docx", saved(document.save), "fr", 2**20)
    translation = " ".join(f'<b id="{place}">{text}</b>' for place, text in target)
    (after,) = docx.Document(io.BytesIO(file.rebuild([translation]))).paragraphs
    assert [run.text for run in after.runs if run.text] == expected
    assert [run.text for run in after.runs if run.bold] == [dict(target)[1]]


def test_slides_keep_their_shapes() -> None:
    slides = pptx.Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[1])
    slide.shapes.title.text = "the title"
    frame = slide.placeholders[1].text_frame
    frame.text = "first point"
    run = frame.add_paragraph().add_run()
    run.text, run.font.bold = "bold point", True
    slide.notes_slide.notes_text_frame.text = "a note"
    found = pptx.Presentation(io.BytesIO(shouted(".pptx", saved(slides.save)))).slides[0]
    assert found.shapes.title.text == "THE TITLE"
    assert found.placeholders[1].text_frame.text == "FIRST POINT\nBOLD POINT"
    assert found.placeholders[1].text_frame.paragraphs[1].runs[0].font.bold
    assert found.notes_slide.notes_text_frame.text == "A NOTE"


def test_an_open_document_keeps_its_structure() -> None:
    found = load(io.BytesIO(shouted(".odt", text_file()))).text
    assert [teletype.extractText(each) for each in found.getElementsByType(H)] == ["THE TITLE"]
    paragraphs = [teletype.extractText(each) for each in found.getElementsByType(P)]
    assert paragraphs == ["SOME BOLD WORDS & MORE", "FIRST", "SECOND", "CELL"]
    assert [teletype.extractText(each) for each in found.getElementsByType(Span)] == ["BOLD"]
    assert len(found.getElementsByType(ListItem)) == 2


def test_a_book_keeps_its_chapters(tmp_path: Path) -> None:
    book = epub.EpubBook()
    book.set_identifier("x")
    book.set_title("a title")
    book.set_language("en")
    chapter = epub.EpubHtml(title="One", file_name="one.xhtml")
    chapter.content = "<h1>Chapter one</h1><p>Some <b>bold</b> words.</p>"
    book.add_item(chapter)
    book.toc, book.spine = [chapter], ["nav", chapter]
    book.add_item(epub.EpubNcx())
    book.add_item(epub.EpubNav())
    path = tmp_path / "a.epub"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        epub.write_epub(str(path), book)
        path.write_bytes(shouted(".epub", path.read_bytes()))
        found = epub.read_epub(str(path))
    names = [found.get_metadata("DC", name)[0][0] for name in ("title", "language", "identifier")]
    assert names == ["A TITLE", "fr", "x"]
    content = found.get_item_with_href("one.xhtml").get_content().decode()
    assert re.findall(r"<h1>(.*?)</h1>|<b>(.*?)</b>", content) == [("CHAPTER ONE", ""), ("", "BOLD")]
    assert [item.get_id() for item in found.get_items()] == [item.get_id() for item in book.get_items()]


@pytest.mark.skipif(
    shutil.which("soffice") is None, reason="the Debian package libreoffice-writer-nogui is not installed"
)
def test_libreoffice_opens_translated_files(tmp_path: Path) -> None:
    (tmp_path / "word.docx").write_bytes(shouted(".docx", word_file()))
    (tmp_path / "open.odt").write_bytes(shouted(".odt", text_file()))
    profile = f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}"
    convert = [
        "soffice",
        profile,
        "--headless",
        "--convert-to",
        "txt:Text (encoded):UTF8",
        "--outdir",
        tmp_path,
    ]
    files = [tmp_path / "word.docx", tmp_path / "open.odt"]
    subprocess.run([*convert, *files], check=True, capture_output=True, timeout=300)
    for name, words in (("word", "SOME BOLD WORDS & A LINK"), ("open", "SOME BOLD WORDS & MORE")):
        text = (tmp_path / f"{name}.txt").read_text("utf-8-sig")
        assert words in text
        assert text.index("THE TITLE") < text.index(words) < text.index("FIRST") < text.index("CELL")
