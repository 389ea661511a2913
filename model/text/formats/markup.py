"""② Finds the text to translate in plain text, HTML or XML, and ⑧ puts its translation back in place.

The text between two tags is translated by itself. Texts with only inline tags (`<b>`, `<a>`) or untranslated
inline elements (`<code>`) between them are translated as one run, in which a character stands for each of
these (model/text/tags.py). All markup comes back unchanged.
Comments, CDATA sections and elements with `translate="no"` or the class `notranslate` are not translated, and
neither are scripts, styles and code in HTML. Of the attributes those of HTML that people read are translated.
"""

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from typing import Protocol, Self

from model.text.formats.markup_syntax import HTML, MarkupSyntax, closes_itself, has_translate_no
from model.text.languages import UNSPACED_LETTER, UNSPACED_LETTERS
from model.text.tags import ANY_TAG, MAX_NUMBER, closing_tag, kept_tag, note_tag, opening_tag, point_tag

_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
_NUMBER = re.compile("&#(?:0*(?P<decimal>[0-9]+)|x0*(?P<hexadecimal>[0-9a-f]+));?", re.IGNORECASE)
# No code point has more digits, and Python refuses to convert thousands of them.
_MAX_DIGITS = 8
# What the number of a note stands behind: a mark, or a word but no unit and no abbreviation, which may have a
# power or be part of a formula.
_NOTED = re.compile(
    rf"(?:(?<![^\W_])(?![kcdm]m\Z|[A-Z]{{2,3}}\Z)[^\W\d_]{{2,}}|[{UNSPACED_LETTERS}]|[,;:.!?…。，！？；：”»])\Z"
)
_LONGEST_WORD = 40
_ENTITY = re.compile(r"&[^\W\d][\w.-]*;")


class Layout(Protocol):
    """The texts of a document, and how to rebuild the document from their translations."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts to translate, in order."""

    def rebuild(self, texts: Sequence[str]) -> str:
        """Returns the document with these texts in place of `texts`."""

    def beginning(self, texts: Sequence[str]) -> str:
        """Returns the document up to the end of the last of these texts, which may be fewer than `texts`."""


@dataclass(frozen=True)
class PlainText:
    """A text without markup."""

    text: str

    @property
    def texts(self) -> tuple[str, ...]:
        """The text itself."""
        return (self.text,)

    def rebuild(self, texts: Sequence[str]) -> str:
        """The translation itself."""
        return texts[0]

    def beginning(self, texts: Sequence[str]) -> str:
        """Returns the translation so far."""
        return "".join(texts)


class Kind(Enum):
    """The kinds of pieces of a document."""

    TEXT = auto()
    MARKUP = auto()
    """A tag, comment or section, or what is not translated and is no part of a line of text."""
    KEPT = auto()
    """An inline element that is not translated, or a reference to an entity that the document declares."""


Piece = tuple[str, Kind]
_Entry = tuple[int, int, int | None]
"""A run: its first piece, the one behind it, and None; or a value: its piece, its start and its end there."""


@dataclass(frozen=True)
class Markup:
    """A document cut into markup and runs of text.

    Attributes:
        pieces: The document, in order, as it was written; each with what it is.
        runs: The pieces of each run of text, from the first to before the last index; text at both ends.
        marks: The character that stands for each piece of a run that is no text, by index.
        values: The piece of each attribute that is translated, and start and end of its value in the piece.
    """

    pieces: tuple[Piece, ...]
    runs: tuple[tuple[int, int], ...]
    marks: Mapping[int, str]
    values: tuple[tuple[int, int, int], ...] = ()

    @classmethod
    def split(cls, source: str, syntax: MarkupSyntax = HTML) -> Self:
        """Cut a document, which need not be well-formed; the joined pieces equal `source`."""
        syntax = syntax.outlined(source)
        pieces = tuple((piece, kind) for piece, kind in _cut(source, syntax) if piece)
        # In a document with characters of private use, none stands for a tag.
        joins = not any(ANY_TAG.search(_resolved(piece)) for piece, kind in pieces if kind is Kind.TEXT)
        runs = (
            list(_runs(pieces, syntax))
            if joins
            else [(index, index + 1) for index, (_, kind) in enumerate(pieces) if kind is Kind.TEXT]
        )
        marks = {index: mark for start, end in runs for index, mark in _marks(pieces, start, end, syntax)}
        tags = ((index, piece) for index, (piece, kind) in enumerate(pieces) if kind is Kind.MARKUP)
        values = tuple((index, *span) for index, piece in tags for span in syntax.values(piece))
        return cls(pieces, tuple(runs), marks, values)

    @cached_property
    def _entries(self) -> list[_Entry]:
        runs: list[_Entry] = [(start, end, None) for start, end in self.runs]
        # A run is shown only with its tags, so their values precede it.
        return sorted(
            [*self.values, *runs],
            key=lambda entry: (entry[1] - 1, True) if entry[2] is None else (entry[0], False),
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """The runs of text and the values of attributes, with their character references resolved.

        A run has a character for each tag, and follows the values of its tags.
        """
        return tuple(map(self._text, self._entries))

    def rebuild(self, texts: Sequence[str]) -> str:
        """The document with other texts in it; a text that did not change keeps its character references."""
        return self._with(texts, is_whole=True)

    def beginning(self, texts: Sequence[str]) -> str:
        """The document up to the end of one of its runs, where elements may be open.

        The last text may be a beginning itself. If it is empty, or if it may still turn out unchanged and
        would then be written with other character references, the document ends before it.
        """
        if texts and not texts[-1]:
            texts = texts[:-1]
        if texts and self._may_be_unchanged(self._entries[len(texts) - 1], texts[-1]):
            texts = texts[:-1]
        return self._with(texts)

    def _with(self, texts: Sequence[str], *, is_whole: bool = False) -> str:
        """The document up to its last run, or to its end."""
        given = list(zip(self._entries, texts, strict=False))
        pieces = self._with_values(given)
        parts, position = [], 0
        for (start, end, stop), new in given:
            if stop is None:
                entry = (start, end, stop)
                unchanged = "".join(pieces[start:end])
                parts += pieces[position:start]
                parts.append(unchanged if new == self._text(entry) else self._filled(pieces, entry, new))
                position = end
        return "".join([*parts, *(pieces[position:] if is_whole else ())])

    def _with_values(self, texts: Iterable[tuple[_Entry, str]]) -> list[str]:
        """The pieces, with other values of attributes."""
        pieces = [piece for piece, _ in self.pieces]
        # From the last one on, so that places in a piece stay.
        for (index, begin, end), new in reversed(list(texts)):
            if end is not None and new != self._text((index, begin, end)):
                piece = pieces[index]
                quote = "&quot;" if piece[end] == '"' else "&#x27;"
                value = _escaped(new, piece[begin:end]).replace(piece[end], quote)
                pieces[index] = piece[:begin] + value + piece[end:]
        return pieces

    def _text(self, entry: _Entry) -> str:
        start, end, stop = entry
        if stop is not None:
            return _resolved(self.pieces[start][0][end:stop])
        return "".join(
            self.marks.get(index) or _resolved(self.pieces[index][0]) for index in range(start, end)
        )

    def _filled(self, pieces: Sequence[str], entry: _Entry, text: str) -> str:
        """A run with another text."""
        indices = range(*entry[:2])
        before = "".join(pieces[index] for index in indices if index not in self.marks)
        tags = {self.marks[index]: pieces[index] for index in indices if index in self.marks}
        if not tags:  # characters of private use in the text are no tags
            return _escaped(text, before)
        return ANY_TAG.sub(lambda mark: tags.get(mark[0], ""), _escaped(text, before))

    def _may_be_unchanged(self, entry: _Entry, beginning: str) -> bool:
        if entry[2] is not None:
            return False
        pieces = [piece for piece, _ in self.pieces]
        filled = self._filled(pieces, entry, beginning)
        return self._text(entry).startswith(beginning) and not "".join(pieces[slice(*entry[:2])]).startswith(
            filled
        )


def layout_of(text: str, syntax: MarkupSyntax | None) -> Layout:
    """Returns the layout of a text; plain text has no syntax."""
    return Markup.split(text, syntax) if syntax else PlainText(text)


def _runs(pieces: Sequence[Piece], syntax: MarkupSyntax) -> Iterator[tuple[int, int]]:
    """Yields the runs of text: between their texts and kept elements, there are only tags within a line."""
    start = end = 0
    has_text = False
    for index, (piece, kind) in enumerate(pieces):
        if kind is Kind.MARKUP and syntax.is_within_line(piece):
            continue
        if kind is Kind.MARKUP or index - start > MAX_NUMBER:
            if has_text:
                yield start, end
            start, end, has_text = index, index, False
        if kind is not Kind.MARKUP:
            start = start if end > start else index
            end, has_text = index + 1, has_text or kind is Kind.TEXT
    if has_text:
        yield start, end


def _marks(pieces: Sequence[Piece], start: int, end: int, syntax: MarkupSyntax) -> Iterator[tuple[int, str]]:
    """Yields the character for each tag of a run, with the index of the piece."""
    opened: list[tuple[str, int]] = []
    ends = frozenset(syntax.paired.values())
    for index, (piece, kind) in enumerate(pieces[start:end], start):
        number, tag = index - start, syntax.tag.match(piece)
        name = tag["name"].lower() if tag and tag["name"] else ""
        if kind is Kind.TEXT or (tag is None and kind is Kind.MARKUP):
            continue
        if name in syntax.paired:
            opened.append((syntax.paired[name], number))
            yield index, opening_tag(number)
        elif name in ends or (kind is Kind.MARKUP and tag and tag["closing"]):
            yield index, closing_tag(_close(opened, name, number))
        elif kind is Kind.KEPT:
            is_raised = tag is not None and tag["note"] is not None and not piece.lower().startswith("<sub")
            is_note = is_raised and _is_behind_word(pieces, index)
            yield index, note_tag(number) if is_note else kept_tag(number)
        elif name in syntax.void or (tag and closes_itself(tag["attributes"])):
            yield index, point_tag(number)
        else:
            opened.append((name, number))
            yield index, opening_tag(number)


def _is_behind_word(pieces: Sequence[Piece], index: int) -> bool:
    """Returns whether a piece follows a word or mark without a space, and no letter follows the piece."""
    before = next((place for place in range(index - 1, -1, -1) if not pieces[place][0].startswith("</")), -1)
    behind = pieces[index + 1][0][:1] if index + 1 < len(pieces) else ""
    return (
        before >= 0
        and pieces[before][1] is Kind.TEXT
        and _NOTED.search(pieces[before][0][-_LONGEST_WORD:]) is not None
        and (not behind.isalnum() or UNSPACED_LETTER.match(behind) is not None)
    )


def _close(opened: list[tuple[str, int]], name: str, number: int) -> int:
    """Returns the number of the innermost open element of a name, which ends here; else a new number."""
    place = max((i for i, (each, _) in enumerate(opened) if each == name), default=None)
    if place is None:
        return number
    number = opened[place][1]
    del opened[place:]
    return number


def _resolved(piece: str) -> str:
    """A run of text with its character references resolved; every reference gives a character."""
    return html.unescape(_NUMBER.sub(_decodable, piece) if "&#" in piece else piece)


def _decodable(number: re.Match[str]) -> str:
    """A reference that `html.unescape` resolves, or its character if `html.unescape` would drop it."""
    decimal, hexadecimal = number.groups()
    code = int(decimal[:_MAX_DIGITS]) if decimal else int(hexadecimal[:_MAX_DIGITS], 16)
    reference = f"&#{code};"
    return reference if html.unescape(reference) else chr(code)


def _escaped(text: str, before: str) -> str:
    """A text as HTML; control characters that were references before become references again."""
    escaped = html.escape(text, quote=False)
    hidden = set(_CONTROL.findall(escaped)).difference(before)
    return (
        escaped.translate({ord(control): f"&#{ord(control)};" for control in hidden}) if hidden else escaped
    )


def _cut(source: str, syntax: MarkupSyntax) -> Iterator[Piece]:
    """Yields the source in pieces, some of them empty; an untranslated element is one piece."""
    scope = _UntranslatedScope(syntax)
    position = start = 0
    # No tag starts after the last >; searching there for the end of one would take quadratic time.
    for tag in syntax.tag.finditer(source, 0, source.rfind(">") + 1):
        if tag["endless"]:
            break
        was_open = scope.is_open
        if not was_open:
            yield from _texts(source[position : tag.start()], syntax)
            start = tag.start()
        scope.pass_tag(tag)
        position = tag.end()
        if not scope.is_open:
            element = source[start:position]
            is_kept = was_open or tag["note"] is not None or _is_word(source, tag, syntax)
            is_kept = is_kept and syntax.is_within_line(element)
            yield element, Kind.KEPT if is_kept else Kind.MARKUP
    if scope.is_open:
        yield source[start:], Kind.MARKUP
        return
    section = syntax.section.search(source, position)
    end = section.start() if section else len(source)
    yield from _texts(source[position:end], syntax)
    yield source[end:], Kind.MARKUP


def _is_word(source: str, tag: re.Match[str], syntax: MarkupSyntax) -> bool:
    """Returns whether a tag is a placeholder that neither follows nor precedes a letter or digit."""
    if tag["name"] not in syntax.placeholders or not closes_itself(tag["attributes"]):
        return False
    around = source[max(tag.start() - 1, 0) : tag.start()] + source[tag.end() : tag.end() + 1]
    return not any(map(str.isalnum, around))


def _texts(text: str, syntax: MarkupSyntax) -> Iterator[Piece]:
    """Yields the text between two tags; references to entities that the document declares are no text."""
    position = 0
    for reference in _ENTITY.finditer(text) if syntax.has_entities else ():
        if html.unescape(reference[0]) == reference[0]:
            yield text[position : reference.start()], Kind.TEXT
            yield reference[0], Kind.KEPT
            position = reference.end()
    yield text[position:], Kind.TEXT


class _UntranslatedScope:
    """Tells whether the current position is inside an element that is not translated."""

    def __init__(self, syntax: MarkupSyntax) -> None:
        self._syntax = syntax
        self._open: list[str] = []
        self._num_open = Counter[str]()

    @property
    def is_open(self) -> bool:
        """Returns whether text at the current position is not translated."""
        return bool(self._open)

    def pass_tag(self, tag: re.Match[str]) -> None:
        """Move the current position past a tag."""
        name = (tag["name"] or "").lower()
        if not name:
            return
        self._end_implied(tag["closing"] + name)
        if name in self._syntax.void:
            return
        if not tag["closing"]:
            attributes = tag["attributes"]
            untranslated = name in self._syntax.untranslated or has_translate_no(attributes)
            if (self._open or untranslated) and not closes_itself(attributes):
                self._open.append(name)
                self._num_open[name] += 1
        elif self._num_open[name]:
            # Elements that were never closed end with their parent.
            while self._end_innermost() != name:
                pass

    def _end_innermost(self) -> str:
        name = self._open.pop()
        self._num_open[name] -= 1
        return name

    def _end_implied(self, tag: str) -> None:
        while self._open and tag in self._syntax.ended_by.get(self._open[-1], ()):
            self._end_innermost()
