"""The texts of a file, and how to rebuild the file from their translations."""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

from model.errors import InputError
from model.text.document import Document, Splitting, middle
from model.text.formats.markup import layout_of
from model.text.formats.markup_syntax import HTML, MarkupSyntax
from model.text.languages import gains_spaces

_SAMPLE_CHARACTERS: Final = 2_000
_TAG = re.compile("<[^<>]*>")
_HTML_TAG = re.compile(r"<html(?=\s)[^<>]*>", re.IGNORECASE)
_LANGUAGE = re.compile(r"""(\s(?:xml:)?lang\s*=\s*)(?:"[^"]*"|'[^']*')""", re.IGNORECASE)
_META_CHARSET = re.compile(
    r"""(<meta(?=\s)[^<>]*\scharset\s*=\s*["']?|<meta(?=\s)[^<>]*;\s*charset=)([\w.:-]{1,40})""",
    re.IGNORECASE | re.ASCII,
)
_XML_CHARSET = re.compile(
    r"""(\A\ufeff?\s*<\?xml(?=\s)[^<>]*\sencoding\s*=\s*["'])([\w.:-]{1,40})""", re.ASCII
)
# A comment without an end extends to the end of the file; the possessive quantifier keeps that linear.
_COMMENT = re.compile("<!--(?:(?!-->).)*+", re.DOTALL)
_BYTE_ORDER_MARKS: Final = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Of older charsets browsers read the larger one that replaced them.
_REPLACED_BY: Final = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
# What every charset leaves as it is; EBCDIC and Python's own encodings (`idna`, `unicode_escape`, …) do not.
_ASCII: Final = rb"<a b='1'>+AGE- \u0041 .xn--bcher-kva.</a>"
_TWO_BEYOND_ASCII = re.compile(rb"[\x80-\xff]{2}")
# Such as the Polish "było", which reads "by³o" in Windows-1252.
_SIGN_IN_WORD = re.compile(rb"[A-Za-z][\xa1-\xa6\xa8\xac\xaf\xb1-\xb6\xb8\xb9\xbc-\xbf][a-z]")


class FileError(InputError):
    """A file that is not what its name says, or cannot be translated.

    Args:
        reason: Why not, as the end of a sentence.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"`file` {reason}", "file")


@dataclass(frozen=True)
class FileText:
    """The texts of a file.

    Attributes:
        texts: What is translated, in order.
        rebuild: Makes the file from one translation for each text.
        markup: Syntax of the texts; None if they are plain.
        joins_lines: Whether a line break within a text ends no sentence.
    """

    texts: tuple[str, ...]
    rebuild: Callable[[Sequence[str]], bytes]
    markup: MarkupSyntax | None = None
    joins_lines: bool = False

    @property
    def splitting(self) -> Splitting:
        """Where the sentences of a text end."""
        return "across_lines" if self.joins_lines else "sentences"

    @property
    def sample(self) -> str:
        """The beginning of the texts without their markup, to detect their language."""
        sample = ""
        for text in self.texts:
            sample += _TAG.sub(" ", text[: 10 * _SAMPLE_CHARACTERS]) + "\n" if self.markup else f"{text}\n"
            if len(sample) > _SAMPLE_CHARACTERS:
                break
        return sample

    def in_runs(self) -> "FileText":
        """Returns the file with a text for each run of text between markup, so that none has markup."""
        layouts = [layout_of(text, self.markup) for text in self.texts]

        def rebuild(translations: Sequence[str]) -> bytes:
            remaining = iter(translations)
            return self.rebuild(
                [layout.rebuild(list(islice(remaining, len(layout.texts)))) for layout in layouts]
            )

        runs = tuple(run for layout in layouts for run in layout.texts)
        return FileText(runs, rebuild, joins_lines=self.joins_lines)

    def in_parts(self, source: str, target: str, length: int) -> "FileText":
        """Returns the file with each text divided into parts of at most `length` characters.

        Texts are divided between sentences, and longer sentences as `middle` does.

        Args:
            source: Code of the language of the texts.
            target: Code of the language of their translations.
            length: At least 2.
        """
        divided = [
            list(_parts(Document.split(text, source, self.splitting), length))
            if len(text) > length
            else [text]
            for text in self.texts
        ]
        space = " " if gains_spaces(source, target) else ""

        def rebuild(translations: Sequence[str]) -> bytes:
            remaining = iter(translations)
            return self.rebuild([_joined(list(islice(remaining, len(parts))), space) for parts in divided])

        parts = tuple(part for parts in divided for part in parts)
        return FileText(parts, rebuild, markup=self.markup, joins_lines=self.joins_lines)


def _parts(document: Document, length: int) -> Iterator[str]:
    part = ""
    for piece, _ in document.pieces():
        for each in _cut(piece, length):
            if part and len(part) + len(each) > length:
                yield part
                part = ""
            part += each
    yield part


def _joined(parts: Sequence[str], space: str) -> str:
    *others, last = parts
    return "".join([*(part + space * (not part[-1:].isspace()) for part in others), last])


def _cut(text: str, length: int) -> Iterator[str]:
    if len(text) <= length:
        yield text
    else:
        place = middle(text)
        yield from _cut(text[:place], length)
        yield from _cut(text[place:], length)


class Passage(Protocol):
    """A text of a file, as HTML."""

    @property
    def markup(self) -> str:
        """The text with an element for each mark in it."""

    def restored(self, markup: str) -> str:
        """Returns a translation of `markup` as it is written in the file."""


def text_of(pieces: Sequence[str | Passage]) -> FileText:
    """Returns the texts of a file in pieces, of which strings stay as they are."""

    def rebuild(translations: Sequence[str]) -> bytes:
        remaining = iter(translations)
        return "".join(
            piece if isinstance(piece, str) else piece.restored(next(remaining)) for piece in pieces
        ).encode()

    texts = tuple(piece.markup for piece in pieces if not isinstance(piece, str))
    return FileText(texts, rebuild, markup=HTML, joins_lines=True)


def replaced(source: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """Returns a text with other texts in some places.

    Args:
        source: The text.
        spans: Start and end of each place, and its new text.
    """
    pieces, position = list[str](), 0
    for start, end, text in sorted(spans):
        pieces += [source[position:start], text]
        position = end
    return "".join([*pieces, source[position:]])


def decoded(content: bytes) -> str:
    """Returns the text of a file in UTF-8, in UTF-16 with a byte order mark, or in Windows-1252.

    Windows-1252, of which Latin-1 is a part, has no sign by which to know it. A text that is not in UTF-8 is
    taken for it unless two letters beyond ASCII follow each other or a sign stands within a word, as in other
    encodings they mostly do.

    Raises:
        FileError: If it is none of them.
    """
    is_other = _TWO_BEYOND_ASCII.search(content) or _SIGN_IN_WORD.search(content)
    marked = _marked(content)
    for charset in [marked] if marked else ["utf-8"] if is_other else ["utf-8", "cp1252"]:
        with suppress(UnicodeError):
            return _strictly(content, charset)
    raise FileError("must be in UTF-8")


def decoded_markup(content: bytes, *, is_html: bool = False) -> str:
    """Returns an XML or HTML file in UTF-8, or decoded as it declares; without a declaration as `decoded`.

    A byte order mark counts more than the XML declaration, and that more than an element `meta` of HTML.

    Raises:
        FileError: If it is not in that charset, or no such charset is known.
    """
    text = content.decode("latin-1")
    declared = _XML_CHARSET.search(text)
    if declared is None and is_html:
        declared = _META_CHARSET.search(_COMMENT.sub("", text))
    if declared is None or _marked(content):
        return decoded(content)
    codec = _codec(declared[2])
    # Letters beyond ASCII that are valid UTF-8 are nothing else, even where an old declaration was left.
    for charset in [codec] if content.isascii() else ["utf-8", codec]:
        with suppress(UnicodeError):
            return _strictly(content, charset)
    raise FileError("is not in the charset that it declares")


def _marked(content: bytes) -> str | None:
    return next((charset for mark, charset in _BYTE_ORDER_MARKS.items() if content.startswith(mark)), None)


def _strictly(content: bytes, charset: str) -> str:
    text = content.decode(charset)
    if "\0" in text:
        raise FileError("must be a text, but holds NUL characters")
    return text


def _codec(charset: str) -> str:
    """Returns Python's name of the charset that a declaration in ASCII names."""
    with suppress(LookupError, UnicodeError):
        codec = codecs.lookup(charset).name
        if codec.startswith(("utf-16", "utf-32")):  # in which the declaration would not be in ASCII
            return "utf-8"
        if _ASCII.decode(codec) == _ASCII.decode():
            return _REPLACED_BY.get(codec, codec)
    raise FileError("declares a charset that is not known, and must be in UTF-8")


def labelled(page: str, language: str) -> str:
    """Returns an HTML page that says its language, if it said one before, and that it is in UTF-8.

    Args:
        page: The page.
        language: Code of its language.
    """
    page = _HTML_TAG.sub(lambda tag: in_language(tag[0], language), page, count=1)
    return _META_CHARSET.sub(r"\g<1>utf-8", declared_utf_8(page))


def in_language(tag: str, language: str) -> str:
    """Returns a start tag whose attributes `lang` and `xml:lang`, if it has any, name a language."""
    return _LANGUAGE.sub(rf'\g<1>"{language}"', tag)


def declared_utf_8(document: str) -> str:
    """Returns an XML document whose declaration, if it names a charset, names UTF-8."""
    return _XML_CHARSET.sub(
        lambda found: found[0] if found[2].lower() == "utf-8" else f"{found[1]}UTF-8", document
    )
