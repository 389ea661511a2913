"""Archives of XML: docx, pptx, odt, odp and epub. Only the text of paragraphs changes, and no byte beside it.

Nothing in an archive is executed, and no XML parser reads it, so that entities cannot grow and no other file
is opened. Parts without text are copied as they are.
"""

import html
import io
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Final

from model.errors import TextTooLongError
from model.text.formats.file_text import FileError, FileText, labelled
from model.text.formats.markup_syntax import HTML

_MAX_PARTS: Final = 5_000
_WORD_PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml")
_SLIDES = re.compile(r"ppt/(?:slides|notesSlides)/[^/]+\.xml")
_OPEN_DOCUMENT = re.compile(r"(?:content|styles)\.xml")
_PAGES = re.compile(r".+\.(?:x?html?|ncx)", re.IGNORECASE)
_PACKAGE = re.compile(r".+\.opf", re.IGNORECASE)
_BOOK_LANGUAGE = re.compile(r"(<dc:language(?:\s[^<>]*)?>)[^<>]*(?=</dc:language>)")
# Word's and PowerPoint's paragraphs (`p`), texts (`t`), and what stands between texts like a character.
_OFFICE = re.compile(
    r"<(?P<end>/?)[wa]:(?:p(?=[\s/>])[^<>]*?(?P<empty>/?)>|(?P<cut>tab|br|cr|fld|footnoteReference)(?=[\s/>])[^<>]*>)"
    r"|(?P<tag><[wa]:t(?:\s[^<>]*)?(?<!/)>)(?P<text>[^<]*)</[wa]:t>"
)
# What may stand between two runs of one format: Word divides runs by sessions and spelling.
_NOISE = re.compile(
    r"</?[wa]:[rt](?=[\s>])[^<>]*>|<w:(?:proofErr|bookmarkStart|bookmarkEnd|lang|noProof|lastRenderedPageBreak)"
    r"(?=[\s/>])[^<>]*/>| (?:lang|altLang|dirty|err)=\"[^\"]*\""
)
_NO_FORMAT = re.compile(r"<([wa]:rPr)\s*(?:/>|></\1>)")
_MAX_FORMAT: Final = 4_000
_MAX_ASSIGNMENTS: Final = 1_000_000
_MOST_FORMATS: Final = 8  # elements around a text that are compared
_ODF_TAG = re.compile(r"<(?P<end>/?)(?P<name>[^\s<>/]*+)[^<>]*?(?P<empty>/?)>")
_ODF_UNTRANSLATED: Final = ("text:note-citation", "office:annotation")
_RUN = re.compile(r'<b id="(\d+)">|</b>')
_MACROS = re.compile(r"vbaProject|^(?:Basic|Scripts)/", re.IGNORECASE)


Archive = Mapping[str, tuple[zipfile.ZipInfo, bytes]]
"""The parts of an archive by name, in their order."""


@dataclass
class _Paragraph:
    """The runs of text of a paragraph, each with its place in the part.

    Attributes:
        runs: Start, end and source of each run, as XML.
        formats: What decides how each run looks; runs of one format look alike.
        tags: The start tag that the first places of some runs hold, and which the translation needs too.
        joined: Places of runs that go on with the format of the run before.
    """

    runs: list[tuple[int, int, str]] = field(default_factory=list)
    formats: list[str] = field(default_factory=list)
    tags: dict[int, str] = field(default_factory=dict)
    joined: set[int] = field(default_factory=set)

    @property
    def markup(self) -> str:
        """The paragraph as HTML: an element for each run, if there are several."""
        texts: dict[int, str] = {}
        for place, (_, _, text) in enumerate(self.runs):
            first = next(reversed(texts)) if place in self.joined else place
            texts[first] = texts.get(first, "") + text
        if len(texts) == 1:
            return texts[0]
        return "".join(f'<b id="{place}">{text}</b>' for place, text in texts.items())

    def replacements(self, markup: str) -> Iterator[tuple[int, int, str]]:
        """The runs with their translations, as XML."""
        texts = [""] * len(self.runs)
        segments = list(self._segments(markup)) if len(texts) > 1 else [(0, markup)]
        for place, (_, text) in zip(_places(segments, self.formats), segments, strict=True):
            texts[place] += text
        for place, ((start, end, _), text) in enumerate(zip(self.runs, texts, strict=True)):
            tag = self.tags.get(place, "")
            if tag.startswith("<w") and text != text.strip() and "xml:space" not in tag:
                # Word drops white space at the ends of a run otherwise.
                tag = f'{tag[:-1]} xml:space="preserve">'
            yield start, end, tag + html.escape(html.unescape(text), quote=False)

    def _segments(self, markup: str) -> Iterator[tuple[int, str]]:
        """Yields the parts of a translation, in order, each with the run whose format it has.

        Words that belong to no run have the format of most of the paragraph. White space between two runs
        belongs to the first, unless the second begins with some in the source or has the shorter format: what
        is underlined or bold ends with its last word.
        """
        sizes = Counter[str]()
        for form, (_, _, text) in zip(self.formats, self.runs, strict=True):
            sizes[form] += len(text)
        ((main, _),) = sizes.most_common(1)
        current, position, is_inside = 0, 0, False
        for mark in _RUN.finditer(markup):
            text = markup[position : mark.start()]
            following = int(mark[1]) if mark[1] else current
            is_shorter = len(self.formats[following]) < len(self.formats[current])
            begins_next = self.runs[following][2][:1].isspace() or is_shorter
            if text.isspace():
                yield following if begins_next else current, text
            else:
                yield current if is_inside else self._next(current, main), text
            position, current, is_inside = mark.end(), following, mark[1] is not None
        yield self._next(current, main), markup[position:]

    def _next(self, run: int, form: str) -> int:
        """Returns the first run of a format from a run on, else that run."""
        return next((each for each in range(run, len(self.formats)) if self.formats[each] == form), run)


def _places(segments: Sequence[tuple[int, str]], formats: Sequence[str]) -> list[int]:
    """Returns the run that each part of a translation goes to; runs stay where they are in the paragraph.

    The parts keep their order, so a part may not get the format of its own run: among all ways to assign
    them, the one in which most characters get it.
    """
    wanted = [run for run, _ in segments]
    if wanted == sorted(wanted):
        return wanted
    if len(segments) * len(formats) > _MAX_ASSIGNMENTS:
        return list(accumulate(wanted, max))
    sums, choices = [0] * len(formats), list[list[int]]()
    for run, text in segments:
        # For each run, the best one up to it for the part before.
        before = list(accumulate(range(len(sums)), partial(_better, sums)))
        choices.append(before)
        sums = [
            sums[before[each]] + 2 * len(text) * (formats[each] == formats[run]) + (each == run)
            for each in range(len(formats))
        ]
    places = [max(range(len(sums)), key=lambda each: sums[each])]
    for before in reversed(choices[1:]):
        places.append(before[places[-1]])
    return places[::-1]


def _better(sums: Sequence[int], best: int, other: int) -> int:
    return other if sums[other] > sums[best] else best


def _office_paragraphs(part: str) -> Iterator[_Paragraph]:
    opened: list[_Paragraph] = []
    for found in _OFFICE.finditer(part):
        if found["text"] is not None:
            if opened and found["text"]:
                _add(opened[-1], part, found)
        elif found["cut"]:
            # A line break or a tab divides a paragraph into two texts.
            if opened and opened[-1].runs:
                yield opened.pop()
                opened.append(_Paragraph())
        elif found["end"]:
            if opened:
                yield opened.pop()
        elif not found["empty"]:
            opened.append(_Paragraph())
    yield from opened


def _add(paragraph: _Paragraph, part: str, found: re.Match[str]) -> None:
    """Add a run of text; it is joined to the run before if only noise and the same format lie between."""
    place = len(paragraph.runs)
    if paragraph.runs:
        begin, end, _ = paragraph.runs[-1]
        between = _clean(part[end : found.start()])
        if between == _format(part, found.start()) == _format(part, begin):
            paragraph.joined.add(place)
    paragraph.formats.append(_format(part, found.start()))
    paragraph.tags[place] = found["tag"]
    paragraph.runs.append((found.start(), found.end("text"), found["text"]))


def _format(part: str, position: int) -> str:
    """The format of the run whose text begins at a position."""
    low = max(position - _MAX_FORMAT, 0)
    begin = max(part.rfind(start, low, position) for start in ("<w:r>", "<w:r ", "<a:r>", "<a:r "))
    # A text outside of a run has a format of its own.
    return _clean(part[begin:position]) if begin >= 0 else f"at {position}"


def _clean(xml: str) -> str:
    return _NO_FORMAT.sub("", _NOISE.sub("", xml))


def _odf_paragraphs(part: str) -> Iterator[_Paragraph]:
    """Yields the paragraphs; one within another, as in a note, is a paragraph of its own."""
    opened: list[tuple[_Paragraph, int]] = []
    formats: list[str] = []
    position = 0
    for tag in _ODF_TAG.finditer(part):
        if tag.start() < position:
            continue  # in what is not translated
        if opened and tag.start() > position:
            paragraph, depth = opened[-1]
            paragraph.runs.append((position, tag.start(), part[position : tag.start()]))
            paragraph.formats.append("".join(formats[max(depth, len(formats) - _MOST_FORMATS) :]))
        position = tag.end()
        is_paragraph = tag["name"] in ("text:p", "text:h")
        if tag["name"] in _ODF_UNTRANSLATED and not tag["end"] and not tag["empty"]:
            end = part.find(f"</{tag['name']}>", position)
            position = end if end >= 0 else position
        elif tag["end"]:
            if formats:
                formats.pop()
            if is_paragraph and opened:
                yield opened.pop()[0]
        elif not tag["empty"]:
            formats.append(tag[0])
            if is_paragraph:
                opened.append((_Paragraph(), len(formats)))


def _file_text(
    content: bytes,
    parts: re.Pattern[str],
    target: str,
    max_bytes: int,
    paragraphs: Callable[[str], Iterator[_Paragraph]] | None,
) -> FileText:
    """Returns the texts of the parts of an archive; a part is a page where `paragraphs` is None."""
    archive = _unpacked(content, max_bytes)
    # The pages of a book may have scripts, which stay as they are.
    if paragraphs is not None and any(map(_MACROS.search, archive)):
        raise FileError("holds macros")
    found: list[tuple[str, str, list[_Paragraph]]] = []
    texts: list[str] = []
    for name in filter(parts.fullmatch, archive):
        part = _xml(archive[name][1])
        several = [each for each in paragraphs(part) if _has_text(each)] if paragraphs else []
        texts.extend([each.markup for each in several] if paragraphs else [part])
        found.append((name, part, several))

    def rebuild(translations: Sequence[str]) -> bytes:
        remaining = iter(translations)
        changed = {
            name: _BOOK_LANGUAGE.sub(rf"\g<1>{target}", _xml(archive[name][1])).encode()
            for name in filter(_PACKAGE.fullmatch, archive if paragraphs is None else ())
        }
        for name, part, several in found:
            new = [each for paragraph in several for each in paragraph.replacements(next(remaining))]
            page = _replaced(part, new) if paragraphs else labelled(next(remaining), target)
            changed[name] = page.encode()
        return _written(archive, changed)

    return FileText(tuple(texts), rebuild, markup=HTML, joins_lines=True)


def _has_text(paragraph: _Paragraph) -> bool:
    return any(not text.isspace() for _, _, text in paragraph.runs)


def _replaced(part: str, new: Sequence[tuple[int, int, str]]) -> str:
    pieces, position = [], 0
    for start, end, text in sorted(new):
        pieces += [part[position:start], text]
        position = end
    return "".join([*pieces, part[position:]])


def _unpacked(content: bytes, max_bytes: int) -> Archive:
    """Returns the parts of an archive, which together are within a limit.

    Raises:
        FileError: If it is no archive or is encrypted.
        TextTooLongError: If it is over the limit.
    """
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
    parts, paragraphs = ARCHIVES[suffix]
    try:
        return _file_text(content, parts, target, max_bytes, paragraphs)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, ValueError, EOFError, NotImplementedError):
        raise FileError("is damaged") from None
    except Exception as error:
        if type(error).__module__ in ("zlib", "lzma"):
            raise FileError("is damaged") from None
        raise


ARCHIVES: Final[dict[str, tuple[re.Pattern[str], Callable[[str], Iterator[_Paragraph]] | None]]] = {
    ".docx": (_WORD_PARTS, _office_paragraphs),
    ".pptx": (_SLIDES, _office_paragraphs),
    ".odt": (_OPEN_DOCUMENT, _odf_paragraphs),
    ".odp": (_OPEN_DOCUMENT, _odf_paragraphs),
    ".epub": (_PAGES, None),
}
