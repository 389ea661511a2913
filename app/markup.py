"""② What of a text is to be translated, and ⑧ how the rest is put back: plain text, or HTML.

HTML: each run of text between two tags is translated by itself, whatever the tags are, and every
byte of markup comes back as it was, in its place. So no text is lost and no tag moves; the price
is that a sentence with a tag inside is translated in parts. Attributes, comments, scripts, styles
and elements with `translate="no"` are left alone.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import pairwise
from typing import Protocol, Self

_OPAQUE = frozenset({"script", "style", "template", "noscript", "textarea", "code", "pre"})
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_Attributes = list[tuple[str, str | None]]


class Layout(Protocol):
    """Texts to translate, and the way back."""

    @property
    def texts(self) -> tuple[str, ...]:
        """What is to be translated, in order."""

    def rebuild(self, texts: Sequence[str]) -> str:
        """The whole again, with these texts in place of `texts`."""


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


@dataclass(frozen=True)
class Markup:
    """HTML cut into markup and runs of text.

    Attributes:
        pieces: The whole, in order, as it was written.
        text_indices: Which pieces are runs of text.
    """

    pieces: tuple[str, ...]
    text_indices: tuple[int, ...]

    @classmethod
    def split(cls, source: str) -> Self:
        """Cut HTML, well-formed or not; joining the pieces gives `source` again."""
        cutter = _Cutter(source)
        edges = [*(start for start, _ in cutter.cuts), len(source)]
        pieces = tuple(source[start:end] for start, end in pairwise(edges))
        return cls(pieces, tuple(i for i, (_, is_text) in enumerate(cutter.cuts) if is_text))

    @property
    def texts(self) -> tuple[str, ...]:
        """Runs of text with their character references resolved."""
        return tuple(html.unescape(self.pieces[index]) for index in self.text_indices)

    def rebuild(self, texts: Sequence[str]) -> str:
        """The HTML with other texts in it; a text that did not change keeps its spelling."""
        pieces = list(self.pieces)
        for index, old, new in zip(self.text_indices, self.texts, texts, strict=True):
            if new != old:
                pieces[index] = html.escape(new, quote=False)
        return "".join(pieces)


class _Cutter(HTMLParser):
    """Notes where runs of text and runs of markup begin, and which is which."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=False)
        self.cuts: list[tuple[int, bool]] = []
        self._line_starts = [0]
        for line in source.split("\n"):
            self._line_starts.append(self._line_starts[-1] + len(line) + 1)
        self._shielded: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: _Attributes) -> None:
        self._cut(is_text=False)
        if tag in _VOID:
            return
        untranslated = tag in _OPAQUE or ("translate", "no") in attrs
        if self._shielded or untranslated:
            self._shielded.append(tag)

    def handle_startendtag(self, tag: str, attrs: _Attributes) -> None:
        self._cut(is_text=False)

    def handle_endtag(self, tag: str) -> None:
        self._cut(is_text=False)
        if tag in self._shielded:
            # Elements that were never closed end with the one around them.
            while self._shielded.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        self._cut(is_text=not self._shielded)

    def handle_charref(self, name: str) -> None:
        self._cut(is_text=not self._shielded)

    def handle_entityref(self, name: str) -> None:
        self._cut(is_text=not self._shielded)

    def handle_comment(self, data: str) -> None:
        self._cut(is_text=False)

    def handle_decl(self, decl: str) -> None:
        self._cut(is_text=False)

    def handle_pi(self, data: str) -> None:
        self._cut(is_text=False)

    def unknown_decl(self, data: str) -> None:
        self._cut(is_text=False)

    def _cut(self, *, is_text: bool) -> None:
        if self.cuts and self.cuts[-1][1] == is_text:
            return
        line, column = self.getpos()
        self.cuts.append((self._line_starts[line - 1] + column, is_text))
