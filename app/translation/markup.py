"""② What of a text is to be translated, and ⑧ how the rest is put back: plain text, HTML or XML.

Markup: each run of text between two tags is translated by itself, whatever the tags are, and every
byte of markup comes back as it was, in its place. So no text is lost and no tag moves; the price
is that a sentence with a tag inside is translated in parts. Attributes, comments, CDATA sections and
elements with `translate="no"` are left alone, and so are scripts, styles and code in HTML.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from app.translation.attributes import closes_itself, says_no
from app.translation.dialects import HTML, Dialect

_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
_NUMBER = re.compile("&#(?:0*(?P<decimal>[0-9]+)|x0*(?P<hexadecimal>[0-9a-f]+));?", re.IGNORECASE)
# No character has more, and Python refuses to read thousands of them.
_MOST_DIGITS = 8


class Layout(Protocol):
    """Texts to translate, and the way back."""

    @property
    def texts(self) -> tuple[str, ...]:
        """What is to be translated, in order."""

    def rebuild(self, texts: Sequence[str]) -> str:
        """The whole again, with these texts in place of `texts`."""

    def beginning(self, texts: Sequence[str]) -> str:
        """The same up to the end of the last of these texts, which may be fewer than `texts`."""


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


@dataclass(frozen=True)
class Markup:
    """A document cut into markup and runs of text.

    Attributes:
        pieces: The whole, in order, as it was written.
        text_indices: Which pieces are runs of text.
    """

    pieces: tuple[str, ...]
    text_indices: tuple[int, ...]

    @classmethod
    def split(cls, source: str, dialect: Dialect = HTML) -> Self:
        """Cut a document, well-formed or not; joining the pieces gives `source` again."""
        cuts = [(piece, is_text) for piece, is_text in _cut(source, dialect) if piece]
        pieces = tuple(piece for piece, _ in cuts)
        return cls(pieces, tuple(index for index, (_, is_text) in enumerate(cuts) if is_text))

    @property
    def texts(self) -> tuple[str, ...]:
        """Runs of text with their character references resolved."""
        return tuple(_resolved(self.pieces[index]) for index in self.text_indices)

    def rebuild(self, texts: Sequence[str]) -> str:
        """The document with other texts in it; a text that did not change keeps its spelling."""
        pieces = list(self.pieces)
        for index, old, new in zip(self.text_indices, self.texts, texts, strict=True):
            if new != old:
                pieces[index] = _spelt(new, pieces[index])
        return "".join(pieces)

    def beginning(self, texts: Sequence[str]) -> str:
        """The document up to the end of one of its texts; elements may be open there.

        The last text may itself be a beginning. As long as it may turn out unchanged, and would be
        spelt otherwise then, the document ends before it.
        """
        if texts and self._is_spelling_open(len(texts) - 1, texts[-1]):
            texts = texts[:-1]
        indices = self.text_indices[: len(texts)]
        pieces = self.pieces[: indices[-1] + 1] if indices else ()
        return Markup(pieces, indices).rebuild(texts)

    def _is_spelling_open(self, place: int, beginning: str) -> bool:
        piece = self.pieces[self.text_indices[place]]
        return _resolved(piece).startswith(beginning) and not piece.startswith(_spelt(beginning, piece))


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


def _cut(source: str, dialect: Dialect) -> Iterator[tuple[str, bool]]:
    """All of the source in pieces, each with whether it is text to translate."""
    shield = _Shield(dialect)
    position = 0
    # No tag begins behind the last >, and looking for the end of one there would take quadratic time.
    for tag in dialect.tag.finditer(source, 0, source.rfind(">") + 1):
        if tag["endless"]:
            break
        yield source[position : tag.start()], not shield.is_up
        yield tag[0], False
        shield.pass_through(tag)
        position = tag.end()
    section = dialect.section.search(source, position)
    end = section.start() if section else len(source)
    yield source[position:end], not shield.is_up
    yield source[end:], False


class _Shield:
    """Whether the place that was reached lies inside an element that is not to be translated."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._open: list[str] = []

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
        if name in self._dialect.void:
            return
        if not tag["closing"]:
            attributes = tag["attributes"]
            untranslated = name in self._dialect.untranslated or says_no(attributes)
            if (self._open or untranslated) and not closes_itself(attributes):
                self._open.append(name)
        elif name in self._open:
            # Elements that were never closed end with the one around them.
            while self._open.pop() != name:
                pass

    def _end_what_needs_no_end_tag(self, tag: str) -> None:
        while self._open and tag in self._dialect.ended_by.get(self._open[-1], ()):
            self._open.pop()
