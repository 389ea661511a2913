"""Archives of XML: docx, pptx, odt, odp and epub. Only the text of paragraphs changes, and no byte beside it.

Nothing in an archive is executed, and no XML parser reads it, so that entities cannot grow and no other file
is opened. Parts without text are copied as they are.
"""

import html
import io
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from model.errors import TextTooLongError
from model.text.formats.file_text import FileError, FileText, in_language, labelled, replaced
from model.text.formats.markup_syntax import HTML, is_end_of_word, is_mark
from model.text.formats.paragraphs import Paragraph, Run

_MAX_PARTS: Final = 5_000
_WORD_PARTS = re.compile(
    r"word/(?:document\d*|header\d*|footer\d*|footnotes|endnotes|charts/chart\d+|diagrams/(?:data|drawing)\d+)\.xml"
)
_SLIDES = re.compile(
    r"ppt/(?:(?:slides|notesSlides)/[^/]+|charts/chart\d+|diagrams/(?:data|drawing)\d+)\.xml"
)
_OPEN_DOCUMENT = re.compile(r"(?:Object \d+/)?content\.xml|styles\.xml")
_PAGE = re.compile(r".+\.x?html?", re.IGNORECASE)
_BOOK_PARTS = re.compile(r".+\.(?:x?html?|ncx|opf)", re.IGNORECASE)
_BOOK_LANGUAGE = re.compile(r"(<dc:language(?:\s[^<>]*)?>)[^<>]*(?=</dc:language>)")
_BOOK_TAGS = re.compile(r"<(?:package|dc:title|ncx)(?=\s)[^<>]*>")
# What a reader's library and menu show: the title of a book and the entries of its contents, not its author.
_BOOK_LABELS = re.compile(
    r"<(?:ncx:)?docAuthor(?:\s[^<>]*)?(?<!/)>(?:(?!</(?:ncx:)?docAuthor).)*+"
    r"|(?P<tag><(?P<name>dc:title|(?:ncx:)?text)(?:\s[^<>]*)?(?<!/)>)(?P<text>[^<]+)(?=</(?P=name)\s*>)"
    r"|(?P<entry><reference(?=\s)[^<>]*?\stitle=\")(?P<title>[^<>\"]+)",
    re.DOTALL,
)
# Between the texts of a word with a hyphen that Word writes as an element, perhaps in a run of its own.
_RUN_BREAK = r"(?:</w:r><w:r(?:\s[^<>]*)?>(?:<w:rPr>(?:(?!</?w:(?:rPr|r|t)[\s>]).)*+</w:rPr>)?)?"
_HYPHEN = rf"</w:t>{_RUN_BREAK}<w:(?:noBreak|soft)Hyphen/>{_RUN_BREAK}<w:t(?:\s[^<>]*)?(?<!/)>"
# Word's and PowerPoint's paragraphs (`p`), texts (`t`), what stands between texts like a character, and the
# labels of charts, but not their numbers.
_OFFICE = re.compile(
    r"<(?P<end>/?)[wa]:(?:p(?=[\s/>])[^<>]*?(?P<empty>/?)>|(?P<cut>tab|br|cr|fld)(?=[\s/>])[^<>]*>)"
    r"|(?P<note><w:(?:foot|end)noteReference(?=\s)[^<>]*/>)"
    r"|(?P<field><w:fldSimple(?=\s)|<w:fldChar(?=\s)[^<>]*\"separate\")"
    rf"|(?P<tag><[wa]:t(?:\s[^<>]*)?(?<!/)>)(?P<text>[^<]*(?:{_HYPHEN}[^<]*)*)</[wa]:t>"
    r"|<c:num(?:Cache|Lit)>(?:(?!</c:num).)*+|(?P<labelled><c:v>)(?P<label>[^<]+)",
    re.DOTALL,
)
_HYPHENS = re.compile(_HYPHEN, re.DOTALL)
# What may stand between two runs of one format: Word divides runs by sessions and spelling.
_NOISE = re.compile(
    r"</?[wa]:[rt](?=[\s>])[^<>]*>|<w:(?:proofErr|bookmarkStart|bookmarkEnd|lang|noProof|lastRenderedPageBreak)"
    r"(?=[\s/>])[^<>]*/>| (?:lang|altLang|dirty|err)=\"[^\"]*\""
)
_NO_FORMAT = re.compile(r"<([wa]:rPr)\s*(?:/>|></\1>)")
_RAISED_OR_LOWERED = re.compile(r'<w:vertAlign w:val="su(?P<word>[bp])|\sbaseline="(?P<slide>-?)[1-9]')
_LONGEST_INDEX: Final = 10  # characters
_MAX_FORMATTING: Final = 4_000  # characters before a text in which its run begins
_MOST_ELEMENTS: Final = 8  # elements around a text that are compared
_ODF_TAG = re.compile(r"<(?P<end>/?)(?P<name>[^\s<>/]*+)[^<>]*?(?P<empty>/?)>")
_ODF_PARAGRAPHS: Final = ("text:p", "text:h")
_ODF_TEXTS: Final = (*_ODF_PARAGRAPHS, "text:span", "text:a", "text:meta", "text:ruby", "text:ruby-base")
_ODF_NO_TEXTS: Final = ("dc:", "draw:", "form:", "math:", "meta:", "office:", "svg:", "table:")
_ODF_UNTRANSLATED: Final = (
    "text:note-citation",
    "text:ruby-text",
    "text:tracked-changes",
    "office:annotation",
)
_ODF_SHIFTED = re.compile(
    r'<style:style(?=\s)[^<>]*\sstyle:name="([^"]*)"[^<>]*>\s*'
    r'<style:text-properties(?=\s)[^<>]*\sstyle:text-position="(?!0%)(super|sub|-|\d)'
)
_ODF_STYLE = re.compile(r'\stext:style-name="([^"]*)"')
_ODF_SPACES = re.compile(r'<text:s(?:\s+text:c="(\d{1,3})")?\s*/>')
_ODF_MANIFEST: Final = "META-INF/manifest.xml"
_COMPOUND_FILE: Final = b"\xd0\xcf\x11\xe0"  # in which Office wraps encrypted files, as older files were
_MACROS = re.compile(r"vbaProject|^(?:Basic|Scripts)/", re.IGNORECASE)


Archive = Mapping[str, tuple[zipfile.ZipInfo, bytes]]
"""The parts of an archive by name, in their order."""


def _office_paragraphs(part: str) -> Iterator[Paragraph]:
    opened: list[Paragraph] = []
    is_field = False
    for found in _OFFICE.finditer(part):
        if found["label"] is not None:
            run = Run(found.start(), found.end(), found["label"], "", found["labelled"])
            yield Paragraph([run])
        elif found["text"] is not None:
            if opened and found["text"]:
                _add(opened[-1], part, found, is_field=is_field)
            is_field = False
        elif found["field"]:
            is_field = True
        elif found["note"]:
            if opened:
                opened[-1].runs.append(Run(*found.span(), "1", found["note"], element="sup"))
        elif found["cut"]:
            # A line break or a tab divides a paragraph into two texts.
            if opened and opened[-1].runs:
                yield opened.pop()
                opened.append(Paragraph())
        elif found["end"]:
            if opened:
                yield opened.pop()
        elif found["empty"] is not None and not found["empty"]:
            opened.append(Paragraph())
    yield from opened


def _add(paragraph: Paragraph, part: str, found: re.Match[str], *, is_field: bool) -> None:
    """Adds a run of text, which continues the one before if only noise and the same formatting lie between.

    The number of a field, such as that of a page, is kept.
    """
    text = _HYPHENS.sub(lambda hyphen: "-" if "<w:noBreak" in hyphen[0] else "", found["text"])
    run = Run(found.start(), found.end("text"), text, _formatting(part, found.start()), found["tag"])
    last = paragraph.runs[-1] if paragraph.runs else Run(0, 0, "", "")
    shifted = _RAISED_OR_LOWERED.search(run.formatting)
    if shifted:
        _shift(run, last, is_lowered=shifted["word"] == "b" or shifted["slide"] == "-")
    elif is_field and not any(map(str.isalpha, html.unescape(text))):
        run.element = "code"
    is_like_last = _without_noise(part[last.end : run.start]) == run.formatting == last.formatting
    run.continues = run.continues or (is_like_last and not (run.is_kept or last.is_kept))
    paragraph.runs.append(run)


def _shift(run: Run, last: Run, *, is_lowered: bool) -> None:
    """Keeps a raised or lowered run if it is no words; the end of a word, as in 1st, becomes part of it."""
    is_index = (
        is_lowered and last.text[-1:].isalnum() and run.text.isalnum() and len(run.text) <= _LONGEST_INDEX
    )
    if not is_lowered and not last.is_kept and is_end_of_word(last.text, run.text):
        run.formatting, run.continues = last.formatting, True
    elif is_mark(run.text):
        run.element = "sub" if is_lowered else "sup"
    elif is_index or not any(map(str.isalpha, html.unescape(run.text))):
        run.element = "code"


def _formatting(part: str, position: int) -> str:
    """Returns the formatting of the run whose text begins at a position."""
    low = max(position - _MAX_FORMATTING, 0)
    begin = max(part.rfind(start, low, position) for start in ("<w:r>", "<w:r ", "<a:r>", "<a:r "))
    # A text outside of a run has a formatting of its own.
    return _without_noise(part[begin:position]) if begin >= 0 else f"at {position}"


def _without_noise(xml: str) -> str:
    return _NO_FORMAT.sub("", _NOISE.sub("", xml))


def _odf_paragraphs(part: str) -> Iterator[Paragraph]:
    """Yields the paragraphs, with what styles raise or lower."""
    styles = dict(_ODF_SHIFTED.findall(part))
    for paragraph in _odf_texts(part):
        last = Run(0, 0, "", "")
        for run in paragraph.runs if styles else ():
            shift = next((styles[name] for name in _ODF_STYLE.findall(run.formatting) if name in styles), "")
            if shift and not run.is_kept:
                _shift(run, last, is_lowered=shift in ("sub", "-"))
            last = run
        yield paragraph


def _odf_texts(part: str) -> Iterator[Paragraph]:
    """Yields the paragraphs; one within another, as in a note, is a paragraph of its own."""
    opened: list[tuple[Paragraph, int]] = []
    elements: list[tuple[str, str]] = []
    position = 0
    for tag in _ODF_TAG.finditer(part):
        if tag.start() < position:
            continue  # in what is not translated
        name = tag["name"]
        if opened:
            paragraph, depth = opened[-1]
            _add_odf(paragraph, part, (position, tag.start()), elements, depth)
            if name == "text:s":
                _add_odf(paragraph, part, tag.span(), elements, depth)
            elif name in ("text:tab", "text:line-break") and not tag["end"]:
                yield paragraph
                opened[-1] = (Paragraph(), depth)
        position = tag.end()
        if name in _ODF_UNTRANSLATED and not tag["end"] and not tag["empty"]:
            end = part.find(f"</{name}>", position)
            position = end if end >= 0 else position
            elements.append((name, tag[0]))
        elif tag["end"]:
            if elements:
                elements.pop()
            if name in _ODF_PARAGRAPHS and opened:
                yield opened.pop()[0]
        elif not tag["empty"]:
            elements.append((name, tag[0]))
            if name in _ODF_PARAGRAPHS:
                opened.append((Paragraph(), len(elements)))


def _add_odf(
    paragraph: Paragraph, part: str, span: tuple[int, int], elements: Sequence[tuple[str, str]], depth: int
) -> None:
    """Adds a text to a paragraph; the text of a field, such as a page number, is kept.

    Args:
        paragraph: The paragraph.
        part: The part of the file.
        span: Start and end of the text.
        elements: Name and start tag of each element around the text.
        depth: How many of them are around the paragraph too.
    """
    start, end = span
    if start == end:
        return
    source, element = part[start:end], elements[-1][0]
    is_field = element.startswith(("text:", "presentation:")) and element not in _ODF_TEXTS
    if element.startswith(_ODF_NO_TEXTS) or (is_field and not source.strip()):
        return
    formatting = "".join(tag for _, tag in elements[max(depth, len(elements) - _MOST_ELEMENTS) :])
    spaces = _ODF_SPACES.fullmatch(source)
    text = " " * int(spaces[1] or 1) if spaces else source
    last = paragraph.runs[-1] if paragraph.runs else None
    if last is not None and last.end == start and last.formatting == formatting:
        last.end, last.text = end, last.text + text
    else:
        last = Run(start, end, text, formatting, element="code" if is_field else "b")
        paragraph.runs.append(last)
    last.has_space_elements = last.has_space_elements or spaces is not None


def _book_labels(part: str) -> Iterator[Paragraph]:
    for found in _BOOK_LABELS.finditer(part):
        if found["tag"] or found["entry"]:
            text, tag = found["text"] or found["title"], found["tag"] or found["entry"]
            yield Paragraph([Run(*found.span(), text, "", tag)])


def _file_text(
    content: bytes,
    main: re.Pattern[str],
    parts: re.Pattern[str],
    target: str,
    max_bytes: int,
    paragraphs: Callable[[str], Iterator[Paragraph]] | None,
) -> FileText:
    """Returns the texts of the parts of an archive; of a book, where `paragraphs` is None, a page is one."""
    archive = _unpacked(content, max_bytes)
    if not any(map(main.fullmatch, archive)):
        raise FileError("is another kind of archive than its name says")
    if b"encryption-data" in archive.get(_ODF_MANIFEST, (None, b""))[1]:
        raise FileError("is encrypted")
    # The pages of a book may have scripts, which stay as they are.
    if paragraphs is not None and any(map(_MACROS.search, archive)):
        raise FileError("holds macros")
    found: list[tuple[str, str, list[Paragraph]]] = []
    texts: list[str] = []
    for name in filter(parts.fullmatch, archive):
        part = _xml(archive[name][1])
        is_page = paragraphs is None and _PAGE.fullmatch(name)
        several = [] if is_page else [each for each in (paragraphs or _book_labels)(part) if each.has_text]
        texts.extend([part] if is_page else [each.markup for each in several])
        found.append((name, part, several))

    def rebuild(translations: Sequence[str]) -> bytes:
        remaining = iter(translations)
        changed: dict[str, bytes] = {}
        for name, part, several in found:
            if paragraphs is None and _PAGE.fullmatch(name):
                changed[name] = labelled(next(remaining), target).encode()
                continue
            new = [each for paragraph in several for each in paragraph.replacements(next(remaining))]
            after = replaced(part, new)
            if paragraphs is None:
                after = _BOOK_TAGS.sub(lambda tag: in_language(tag[0], target), after)
                after = _BOOK_LANGUAGE.sub(rf"\g<1>{target}", after)
            changed[name] = after.encode()
        return _written(archive, changed)

    return FileText(tuple(texts), rebuild, markup=HTML, joins_lines=True)


def _unpacked(content: bytes, max_bytes: int) -> Archive:
    """Returns the parts of an archive, which together are within a limit.

    Raises:
        FileError: If it is no archive or is encrypted.
        TextTooLongError: If it is over the limit.
    """
    if content.startswith(_COMPOUND_FILE):
        raise FileError("is encrypted, or in the format of an older program than its name says")
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        infos = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        raise FileError("is not an archive, as its name says") from None
    size = sum(info.file_size for info in infos)
    if len(infos) > _MAX_PARTS:
        raise FileError(f"holds too many parts: at most {_MAX_PARTS}")
    if size > max_bytes:
        raise TextTooLongError("file", "MAX_UNPACKED_BYTES", max_bytes, size)
    if len({info.filename for info in infos}) < len(infos):
        raise FileError("holds two parts of one name")
    if any(info.flag_bits & 1 for info in infos):
        raise FileError("is encrypted")
    if any(info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for info in infos):
        raise FileError("is packed in another way than by deflate")
    return {info.filename: (info, _part(archive, info)) for info in infos}


def _part(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    # `read` of the archive would unpack everything before it compares the size with the one that is declared.
    with archive.open(info) as part:
        content = part.read(info.file_size + 1)
    if len(content) != info.file_size:
        raise FileError("is damaged")
    return content


def _xml(content: bytes) -> str:
    text = content.decode("utf-8-sig", errors="strict")
    if "<!ENTITY" in text:
        raise FileError("declares entities")
    return text


def _written(archive: Archive, changed: dict[str, bytes]) -> bytes:
    """Returns the archive with some parts changed, in the same order and compression."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as target:
        for name, (info, part) in archive.items():
            target.writestr(info, changed.get(name) or part, info.compress_type)
    return buffer.getvalue()


def archived(suffix: str, content: bytes, target: str, max_bytes: int) -> FileText:
    """Returns the texts of a docx, pptx, odt, odp or epub file; a translated book names its target language.

    Raises:
        FileError: If it cannot be read, or its parts have more than `max_bytes` unpacked.
    """
    main, parts, paragraphs = ARCHIVES[suffix]
    try:
        return _file_text(content, main, parts, target, max_bytes, paragraphs)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, ValueError, EOFError, NotImplementedError):
        raise FileError("is damaged") from None
    except Exception as error:
        if type(error).__module__ in ("zlib", "lzma"):
            raise FileError("is damaged") from None
        raise


_Paragraphs = Callable[[str], Iterator[Paragraph]]
ARCHIVES: Final[dict[str, tuple[re.Pattern[str], re.Pattern[str], _Paragraphs | None]]] = {
    ".docx": (re.compile(r"word/document\d*\.xml"), _WORD_PARTS, _office_paragraphs),
    ".pptx": (re.compile(r"ppt/slides/.+\.xml"), _SLIDES, _office_paragraphs),
    ".odt": (re.compile(r"content\.xml"), _OPEN_DOCUMENT, _odf_paragraphs),
    ".odp": (re.compile(r"content\.xml"), _OPEN_DOCUMENT, _odf_paragraphs),
    ".epub": (_PAGE, _BOOK_PARTS, None),
}
"""By suffix: a part that a file must have, the parts with texts, and how paragraphs are found in them."""
