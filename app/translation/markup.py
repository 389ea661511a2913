"""② What of a text is to be translated, and ⑧ how the rest is put back: plain text, HTML or XML.

Markup: each run of text between two tags is translated by itself, whatever the tags are, and every
byte of markup comes back as it was, in its place. So no text is lost and no tag moves; the price
is that a sentence with a tag inside is translated in parts. Attributes, comments, CDATA sections and
elements with `translate="no"` are left alone, and so are scripts, styles and code in HTML.
"""

import dataclasses
import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, Self

from app.translation.markup_syntax import HTML, MarkupSyntax, closes_itself, says_no

_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
_NUMBER = re.compile("&#(?:0*(?P<decimal>[0-9]+)|x0*(?P<hexadecimal>[0-9a-f]+));?", re.IGNORECASE)
# No character has more, and Python refuses to read thousands of them.
_MOST_DIGITS = 8
_ENTITY = re.compile(r"&[^\W\d][\w.-]*;")
_END_OF_A_WORD = frozenset(",.;:!?")


class Layout(Protocol):
    """Texts to translate, and the way back."""

    @property
    def texts(self) -> tuple[str, ...]:
        """What is to be translated, in order."""

    def rebuild(self, texts: Sequence[str]) -> str:
        """The whole again, with these texts in place of `texts`."""

    def beginning(self, texts: Sequence[str]) -> str:
        """The same up to the end of the last of these texts, which may be fewer than `texts`."""

    def spaced(self) -> Self:
        """The same, for texts that become such of a language which puts spaces between words."""


@dataclass(frozen=True)
class PlainText:
    """A text that is translated as a whole."""

    text: str

    @property
    def texts(self) -> tuple[str, ...]:
        """The text itself."""
        return (self.text,)

    def rebuild(self, texts: Sequence[str]) -> str:
        """The translation itself."""
        return texts[0]

    def beginning(self, texts: Sequence[str]) -> str:
        """As much of the translation as there is."""
        return "".join(texts)

    def spaced(self) -> Self:
        """The same: its sentences get their spaces by themselves."""
        return self


@dataclass(frozen=True)
class Markup:
    """A document cut into markup and runs of text.

    Attributes:
        pieces: The whole, in order, as it was written.
        text_indices: Which pieces are runs of text.
        joints: Which runs of text have nothing but tags within a line before the next one.
        is_spaced: Whether words on both sides of such tags are kept apart.
    """

    pieces: tuple[str, ...]
    text_indices: tuple[int, ...]
    joints: frozenset[int] = frozenset()
    is_spaced: bool = False

    @classmethod
    def split(cls, source: str, syntax: MarkupSyntax = HTML) -> Self:
        """Cut a document, well-formed or not; joining the pieces gives `source` again."""
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
        """The same, with a space between words where a tag alone divides them."""
        return dataclasses.replace(self, is_spaced=True)

    @property
    def texts(self) -> tuple[str, ...]:
        """Runs of text with their character references resolved."""
        return tuple(_resolved(self.pieces[index]) for index in self.text_indices)

    def rebuild(self, texts: Sequence[str]) -> str:
        """The document with other texts in it; a text that did not change keeps its spelling."""
        pieces = list(self.pieces)
        if self.is_spaced:
            texts = self._apart(texts)
        for index, old, new in zip(self.text_indices, self.texts, texts, strict=True):
            if new != old:
                pieces[index] = _spelt(new, pieces[index])
        return "".join(pieces)

    def beginning(self, texts: Sequence[str]) -> str:
        """The document up to the end of one of its texts; elements may be open there.

        The last text may itself be a beginning; of one that has not begun, nothing shows. As long as it
        may turn out unchanged, and would be spelt otherwise then, the document ends before it.
        """
        if texts and not texts[-1]:
            texts = texts[:-1]
        if texts and self._is_spelling_open(len(texts) - 1, texts[-1]):
            texts = texts[:-1]
        indices = self.text_indices[: len(texts)]
        pieces = self.pieces[: indices[-1] + 1] if indices else ()
        return dataclasses.replace(self, pieces=pieces, text_indices=indices).rebuild(texts)

    def _apart(self, texts: Sequence[str]) -> Sequence[str]:
        """The texts, with a space outside of the element where two would stand there as one word."""
        apart = list(texts)
        for place, (left, right) in enumerate(pairwise(texts)):
            if place not in self.joints or not _would_touch(left, right):
                continue
            if self.pieces[self.text_indices[place] + 1].startswith("</"):
                apart[place + 1] = " " + apart[place + 1]
            else:
                apart[place] += " "
        return apart

    def _is_spelling_open(self, place: int, beginning: str) -> bool:
        piece = self.pieces[self.text_indices[place]]
        return _resolved(piece).startswith(beginning) and not piece.startswith(_spelt(beginning, piece))


def _would_touch(left: str, right: str) -> bool:
    is_end = left[-1:].isalnum() or left[-1:] in _END_OF_A_WORD
    return is_end and right[:1].isalnum()


def _resolved(piece: str) -> str:
    """A run of text without its character references; none of them comes to nothing."""
    return html.unescape(_NUMBER.sub(_decodable, piece) if "&#" in piece else piece)


def _decodable(number: re.Match[str]) -> str:
    """A reference that `html.unescape` reads; or what it stands for, if that would be dropped."""
    decimal, hexadecimal = number.groups()
    code = int(decimal[:_MOST_DIGITS]) if decimal else int(hexadecimal[:_MOST_DIGITS], 16)
    reference = f"&#{code};"
    return reference if html.unescape(reference) else chr(code)


def _spelt(text: str, before: str) -> str:
    """A text as HTML; controls that stood there as character references become such again."""
    spelt = html.escape(text, quote=False)
    hidden = set(_CONTROL.findall(spelt)).difference(before)
    return spelt.translate({ord(control): f"&#{ord(control)};" for control in hidden}) if hidden else spelt


def _cut(source: str, syntax: MarkupSyntax) -> Iterator[tuple[str, bool]]:
    """All of the source in pieces, each with whether it is text to translate."""
    shield = _Shield(syntax)
    position = 0
    # No tag begins behind the last >, and looking for the end of one there would take quadratic time.
    for tag in syntax.tag.finditer(source, 0, source.rfind(">") + 1):
        if tag["endless"]:
            break
        yield from _runs(source[position : tag.start()], syntax, is_text=not shield.is_up)
        yield tag[0], False
        shield.pass_through(tag)
        position = tag.end()
    section = syntax.section.search(source, position)
    end = section.start() if section else len(source)
    yield from _runs(source[position:end], syntax, is_text=not shield.is_up)
    yield source[end:], False


def _runs(text: str, syntax: MarkupSyntax, *, is_text: bool) -> Iterator[tuple[str, bool]]:
    """What stands between two tags; references to entities that its document declares are no text."""
    position = 0
    for reference in _ENTITY.finditer(text) if is_text and syntax.has_entities else ():
        if html.unescape(reference[0]) == reference[0]:
            yield text[position : reference.start()], True
            yield reference[0], False
            position = reference.end()
    yield text[position:], is_text


class _Shield:
    """Whether the place that was reached lies inside an element that is not to be translated."""

    def __init__(self, syntax: MarkupSyntax) -> None:
        self._syntax = syntax
        self._open: list[str] = []
        self._num_open = Counter[str]()

    @property
    def is_up(self) -> bool:
        """Whether text here is left alone."""
        return bool(self._open)

    def pass_through(self, tag: re.Match[str]) -> None:
        """Go on behind a tag."""
        name = (tag["name"] or "").lower()
        if not name:
            return
        self._end_what_needs_no_end_tag(tag["closing"] + name)
        if name in self._syntax.void:
            return
        if not tag["closing"]:
            attributes = tag["attributes"]
            untranslated = name in self._syntax.untranslated or says_no(attributes)
            if (self._open or untranslated) and not closes_itself(attributes):
                self._open.append(name)
                self._num_open[name] += 1
        elif self._num_open[name]:
            # Elements that were never closed end with the one around them.
            while self._end_innermost() != name:
                pass

    def _end_innermost(self) -> str:
        name = self._open.pop()
        self._num_open[name] -= 1
        return name

    def _end_what_needs_no_end_tag(self, tag: str) -> None:
        while self._open and tag in self._syntax.ended_by.get(self._open[-1], ()):
            self._end_innermost()
