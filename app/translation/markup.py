"""② Finds the text to translate in plain text, HTML or XML, and ⑧ puts its translation back in place.

Each run of text between two tags is translated by itself, whatever the tags are, and all markup comes back
unchanged and in its place. So no text is lost and no tag moves, but a sentence with a tag inside is
translated in parts. Attributes, comments, CDATA sections and elements with `translate="no"` are not
translated, and neither are scripts, styles and code in HTML.
"""

import dataclasses
import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, Self

from app.translation.markup_syntax import HTML, MarkupSyntax, closes_itself, has_translate_no

_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
_NUMBER = re.compile("&#(?:0*(?P<decimal>[0-9]+)|x0*(?P<hexadecimal>[0-9a-f]+));?", re.IGNORECASE)
# No code point has more digits, and Python refuses to convert thousands of them.
_MAX_DIGITS = 8
_ENTITY = re.compile(r"&[^\W\d][\w.-]*;")
_WORD_ENDS = frozenset(",.;:!?")


class Layout(Protocol):
    """The texts of a document, and how to rebuild the document from their translations."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts to translate, in order."""

    def rebuild(self, texts: Sequence[str]) -> str:
        """The document with these texts in place of `texts`."""

    def beginning(self, texts: Sequence[str]) -> str:
        """The document up to the end of the last of these texts, which may be fewer than `texts`."""

    def spaced(self) -> Self:
        """The same document, for translation into a language with spaces between words."""


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

    def spaced(self) -> Self:
        """The same: the spaces between sentences are set elsewhere."""
        return self


@dataclass(frozen=True)
class Markup:
    """A document cut into markup and runs of text.

    Attributes:
        pieces: The document, in order, as it was written.
        text_indices: Indices of the pieces that are runs of text.
        joints: Indices of the runs of text that only inline tags divide from the next run.
        is_spaced: Whether to put a space between words that only inline tags divide.
    """

    pieces: tuple[str, ...]
    text_indices: tuple[int, ...]
    joints: frozenset[int] = frozenset()
    is_spaced: bool = False

    @classmethod
    def split(cls, source: str, syntax: MarkupSyntax = HTML) -> Self:
        """Cut a document, which need not be well-formed; the joined pieces equal `source`."""
        cuts = [(piece, is_text) for piece, is_text in _cut(source, syntax) if piece]
        pieces = tuple(piece for piece, _ in cuts)
        indices = tuple(index for index, (_, is_text) in enumerate(cuts) if is_text)
        joints = (
            place
            for place, (left, right) in enumerate(pairwise(indices))
            if all(syntax.is_inline(piece) for piece in pieces[left + 1 : right])
        )
        return cls(pieces, indices, frozenset(joints))

    def spaced(self) -> Self:
        """The same document, with a space between words that only inline tags divide."""
        return dataclasses.replace(self, is_spaced=True)

    @property
    def texts(self) -> tuple[str, ...]:
        """The runs of text, with their character references resolved."""
        return tuple(_resolved(self.pieces[index]) for index in self.text_indices)

    def rebuild(self, texts: Sequence[str]) -> str:
        """The document with other texts in it; a text that did not change keeps its character references."""
        pieces = list(self.pieces)
        if self.is_spaced:
            texts = self._with_spaces(texts)
        for index, old, new in zip(self.text_indices, self.texts, texts, strict=True):
            if new != old:
                pieces[index] = _escaped(new, pieces[index])
        return "".join(pieces)

    def beginning(self, texts: Sequence[str]) -> str:
        """The document up to the end of one of its texts, where elements may be open.

        The last text may be a beginning itself. If it is empty, or if it may still turn out unchanged and
        would then be written with other character references, the document ends before it.
        """
        if texts and not texts[-1]:
            texts = texts[:-1]
        if texts and self._may_be_unchanged(len(texts) - 1, texts[-1]):
            texts = texts[:-1]
        indices = self.text_indices[: len(texts)]
        pieces = self.pieces[: indices[-1] + 1] if indices else ()
        return dataclasses.replace(self, pieces=pieces, text_indices=indices).rebuild(texts)

    def _with_spaces(self, texts: Sequence[str]) -> Sequence[str]:
        """The texts, with a space outside of the element where two texts would otherwise form one word."""
        spaced = list(texts)
        for place, (left, right) in enumerate(pairwise(texts)):
            if place not in self.joints or not _would_join(left, right):
                continue
            if self.pieces[self.text_indices[place] + 1].startswith("</"):
                spaced[place + 1] = " " + spaced[place + 1]
            else:
                spaced[place] += " "
        return spaced

    def _may_be_unchanged(self, place: int, beginning: str) -> bool:
        piece = self.pieces[self.text_indices[place]]
        return _resolved(piece).startswith(beginning) and not piece.startswith(_escaped(beginning, piece))


def _would_join(left: str, right: str) -> bool:
    is_end = left[-1:].isalnum() or left[-1:] in _WORD_ENDS
    return is_end and right[:1].isalnum()


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
