"""② Finds the text to translate in plain text, HTML or XML, and ⑧ puts its translation back in place.

The text between two tags is translated by itself. Texts with only inline tags (`<b>`, `<a>`) or untranslated
inline elements (`<code>`) between them are translated as one run, in which a mark stands for each tag
(model/text/kept_strings.py). All markup comes back unchanged and in its order.
Attributes, comments, CDATA sections and elements with `translate="no"` are not translated, and neither are
scripts, styles and code in HTML.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol, Self

from model.text.formats.markup_syntax import HTML, MarkupSyntax, closes_itself, has_translate_no
from model.text.kept_strings import CLOSING_MARK, MARKS, OPENING_MARK

_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
_NUMBER = re.compile("&#(?:0*(?P<decimal>[0-9]+)|x0*(?P<hexadecimal>[0-9a-f]+));?", re.IGNORECASE)
# No code point has more digits, and Python refuses to convert thousands of them.
_MAX_DIGITS = 8
_ENTITY = re.compile(r"&[^\W\d][\w.-]*;")
_MARK = re.compile(f"[{MARKS}]")


class Layout(Protocol):
    """The texts of a document, and how to rebuild the document from their translations."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts to translate, in order."""

    def rebuild(self, texts: Sequence[str]) -> str:
        """The document with these texts in place of `texts`."""

    def beginning(self, texts: Sequence[str]) -> str:
        """The document up to the end of the last of these texts, which may be fewer than `texts`."""


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


@dataclass(frozen=True)
class Markup:
    """A document cut into markup and runs of text.

    Attributes:
        pieces: The document, in order, as it was written; each with whether it is text.
        runs: The pieces of each run of text, from the first to before the last index; text at both ends.
    """

    pieces: tuple[tuple[str, bool], ...]
    runs: tuple[tuple[int, int], ...]

    @classmethod
    def split(cls, source: str, syntax: MarkupSyntax = HTML) -> Self:
        """Cut a document, which need not be well-formed; the joined pieces equal `source`."""
        pieces = tuple((piece, is_text) for piece, is_text in _cut(source, syntax) if piece)
        joins = not any(_MARK.search(_resolved(piece)) for piece, is_text in pieces if is_text)
        runs: list[tuple[int, int]] = []
        for index, (_, is_text) in enumerate(pieces):
            if not is_text:
                continue
            between = (piece for piece, _ in pieces[runs[-1][1] if runs else 0 : index])
            if runs and joins and all(map(syntax.is_within_line, between)):
                runs[-1] = runs[-1][0], index + 1
            else:
                runs.append((index, index + 1))
        return cls(pieces, tuple(runs))

    @property
    def texts(self) -> tuple[str, ...]:
        """The runs of text, with their character references resolved and marks for their tags."""
        return tuple("".join(map(_marked, self.pieces[start:end])) for start, end in self.runs)

    def rebuild(self, texts: Sequence[str]) -> str:
        """The document with other texts in it; a text that did not change keeps its character references."""
        return self._with(texts) + self._raw(self.runs[-1][1] if self.runs else 0, len(self.pieces))

    def beginning(self, texts: Sequence[str]) -> str:
        """The document up to the end of one of its texts, where elements may be open.

        The last text may be a beginning itself. If it is empty, or if it may still turn out unchanged and
        would then be written with other character references, the document ends before it.
        """
        if texts and not texts[-1]:
            texts = texts[:-1]
        if texts and self._may_be_unchanged(len(texts) - 1, texts[-1]):
            texts = texts[:-1]
        return self._with(texts, is_whole=False)

    def _with(self, texts: Sequence[str], *, is_whole: bool = True) -> str:
        """The document up to its last text; unless that is whole, tags without a mark in it are missing."""
        parts, position = [], 0
        for place, ((start, end), old, new) in enumerate(zip(self.runs, self.texts, texts, strict=False)):
            parts.append(self._raw(position, start))
            is_last = place == len(texts) - 1
            unchanged = self._raw(start, end)
            parts.append(unchanged if new == old else self._filled(place, new, is_whole or not is_last))
            position = end
        return "".join(parts)

    def _raw(self, start: int, end: int) -> str:
        return "".join(piece for piece, _ in self.pieces[start:end])

    def _filled(self, place: int, text: str, is_whole: bool = False) -> str:
        """A run with another text: each mark becomes the next tag of the run."""
        start, end = self.runs[place]
        before = "".join(piece for piece, is_text in self.pieces[start:end] if is_text)
        tags = [piece for piece, is_text in self.pieces[start:end] if not is_text]
        if not tags:  # characters of private use in the text are no marks
            return _escaped(text, before)
        parts = [_escaped(part, before) for part in _MARK.split(text)]
        marked, unmarked = tags[: len(parts) - 1], tags[len(parts) - 1 :]
        filled = "".join(part + tag for part, tag in zip_longest(parts, marked, fillvalue=""))
        return filled + "".join(unmarked) if is_whole else filled

    def _may_be_unchanged(self, place: int, beginning: str) -> bool:
        raw = self._raw(*self.runs[place])
        return self.texts[place].startswith(beginning) and not raw.startswith(self._filled(place, beginning))


def layout_of(text: str, syntax: MarkupSyntax | None) -> Layout:
    """Returns the layout of a text; plain text has no syntax."""
    return Markup.split(text, syntax) if syntax else PlainText(text)


def _marked(piece: tuple[str, bool]) -> str:
    text, is_text = piece
    if is_text:
        return _resolved(text)
    return CLOSING_MARK if text.startswith("</") else OPENING_MARK


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


def _cut(source: str, syntax: MarkupSyntax) -> Iterator[tuple[str, bool]]:
    """The source in pieces, each with whether it is text to translate."""
    scope = _UntranslatedScope(syntax)
    position = 0
    # No tag starts after the last >; searching there for the end of one would take quadratic time.
    for tag in syntax.tag.finditer(source, 0, source.rfind(">") + 1):
        if tag["endless"]:
            break
        yield from _runs(source[position : tag.start()], syntax, is_text=not scope.is_open)
        yield tag[0], False
        scope.pass_tag(tag)
        position = tag.end()
    section = syntax.section.search(source, position)
    end = section.start() if section else len(source)
    yield from _runs(source[position:end], syntax, is_text=not scope.is_open)
    yield source[end:], False


def _runs(text: str, syntax: MarkupSyntax, *, is_text: bool) -> Iterator[tuple[str, bool]]:
    """The pieces between two tags; references to entities that the document declares are not text."""
    position = 0
    for reference in _ENTITY.finditer(text) if is_text and syntax.has_entities else ():
        if html.unescape(reference[0]) == reference[0]:
            yield text[position : reference.start()], True
            yield reference[0], False
            position = reference.end()
    yield text[position:], is_text


class _UntranslatedScope:
    """Tells whether the current position is inside an element that is not translated."""

    def __init__(self, syntax: MarkupSyntax) -> None:
        self._syntax = syntax
        self._open: list[str] = []
        self._num_open = Counter[str]()

    @property
    def is_open(self) -> bool:
        """Whether text at the current position is not translated."""
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
