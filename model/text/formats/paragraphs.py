"""A paragraph whose parts have different formats: as HTML, and with a translation of that HTML.

An office program stores a paragraph as runs, texts of one formatting each. A translation orders words anew,
but runs stay where they are: each part of it goes to a run of the formatting of its source, as far as the
order permits.
"""

import html
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Final

_MAX_ASSIGNMENTS: Final = 1_000_000
_NEVER: Final = 1_000_000_000
_ODF_SPACE = "<text:s/>"
_RUN = re.compile(r'<(?:b|code|su[bp]) id="(\d+)">|</(?:b|code|su[bp])>')


@dataclass
class Run:
    """A text of a paragraph.

    Attributes:
        start: Where it begins in the part.
        end: Where it ends there.
        text: The text, as XML.
        formatting: What decides how it looks, as XML; runs with the same look alike.
        tag: The start tag that its place begins with, and which the translation needs too.
        continues: Whether it goes on with the formatting of the run before.
        element: The element of HTML that stands for it among other runs: `b`, or one that is not translated,
            such as `code` for the number of a page and `sup` for that of a note.
        has_space_elements: Whether it has elements for spaces, which OpenDocument wants for some.
    """

    start: int
    end: int
    text: str
    formatting: str
    tag: str = ""
    continues: bool = False
    element: str = "b"
    has_space_elements: bool = False

    @property
    def is_kept(self) -> bool:
        """Returns whether it is not translated."""
        return self.element != "b"

    def replacement(self, text: str) -> tuple[int, int, str]:
        """Returns its place, and another text there, as XML."""
        tag = self.tag
        if tag.startswith("<w") and text != text.strip() and "xml:space" not in tag:
            # Word drops white space at the ends of a run otherwise.
            tag = f'{tag[:-1]} xml:space="preserve">'
        text = html.escape(html.unescape(text), quote=tag.endswith('"'))
        if self.has_space_elements:
            text = re.sub(r"^ | $|(?<= ) ", _ODF_SPACE, text)
        return self.start, self.end, tag + text


@dataclass
class Paragraph:
    """The runs of text of a paragraph, in order."""

    runs: list[Run] = field(default_factory=list)

    @property
    def has_text(self) -> bool:
        """Returns whether there is anything to translate."""
        return any(not (run.is_kept or run.text.isspace()) for run in self.runs)

    @property
    def markup(self) -> str:
        """The paragraph as HTML: an element for each run, if there are several."""
        texts: dict[int, str] = {}
        for place, run in enumerate(self.runs):
            first = next(reversed(texts)) if run.continues else place
            texts[first] = texts.get(first, "") + run.text
        if len(texts) == 1:
            return texts[0]
        markup, around = "", self.runs[0]
        for place, text in texts.items():
            run = self.runs[place]
            name = run.element
            element = f'<{name} id="{place}">{text}</{name}>'
            if name == "sup" and markup.endswith("</b>"):
                # A note stays behind its word, in the element that goes on behind it.
                markup = markup.removesuffix("</b>") + element + "</b>"
            elif markup.endswith("</sup></b>") and run.formatting == around.formatting:
                markup = markup.removesuffix("</b>") + text + "</b>"
            else:
                markup, around = markup + element, run
        return markup

    def replacements(self, markup: str) -> Iterator[tuple[int, int, str]]:
        """The runs with their translations, as XML; kept ones stay."""
        texts = [""] * len(self.runs)
        translated = [place for place, run in enumerate(self.runs) if not run.is_kept]
        segments = [
            (run, text)
            for run, text in (self._segments(markup) if len(texts) > 1 else [(0, markup)])
            # A kept run at either end of the paragraph stays there, also if words crossed it.
            if translated[0] <= run <= translated[-1] or text != self.runs[run].text
        ]
        for place, (run, text) in zip(self._places(segments), segments, strict=True):
            if not (self.runs[run].is_kept and text == self.runs[run].text):
                texts[place] += text
        for each, text in zip(self.runs, texts, strict=True):
            if not each.is_kept:
                yield each.replacement(text)

    def _segments(self, markup: str) -> Iterator[tuple[int, str]]:
        """Yields the parts of a translation, in order, each with the run whose formatting it has.

        Words that belong to no run have the formatting of most of the paragraph. White space between two runs
        belongs to the first, unless the second begins with some in the source or has less formatting: what
        is underlined or bold ends with its last word.
        """
        sizes, places = Counter[str](), defaultdict[str, list[int]](list)
        for place, run in enumerate(self.runs):
            if not run.is_kept:
                sizes[run.formatting] += len(run.text)
                places[run.formatting].append(place)
        ((main, _),) = sizes.most_common(1)
        current, position, is_inside, formattings = 0, 0, False, [main]
        for mark in _RUN.finditer(markup):
            text = markup[position : mark.start()]
            following = int(mark[1]) if mark[1] else current
            if text.isspace():
                yield following if self._begins_with_space(following, current) else current, text
            else:
                yield current if is_inside else _next(places[formattings[-1]], current), text
            position, current, is_inside = mark.end(), following, mark[1] is not None
            if is_inside:
                formattings.append(self.runs[current].formatting)
            elif len(formattings) > 1:
                formattings.pop()
        yield _next(places[main], current), markup[position:]

    def _begins_with_space(self, place: int, before: int) -> bool:
        run, other = self.runs[place], self.runs[before]
        if run.is_kept or other.is_kept:
            return other.is_kept
        return run.text[:1].isspace() or len(run.formatting) < len(other.formatting)

    def _places(self, segments: Sequence[tuple[int, str]]) -> list[int]:
        """Returns the run that each part of a translation goes to; runs stay where they are in the paragraph.

        The parts keep their order, so a part may not get the formatting of its own run. Dynamic programming
        finds, among all ways to assign them, the one in which most characters get it, and none is on the
        other side of a kept run.
        """
        wanted = [self._wanted(run, text) for run, text in segments]
        if wanted == sorted(wanted):
            return wanted
        if len(segments) * len(self.runs) > _MAX_ASSIGNMENTS:
            return list(map(self._translated, accumulate(wanted, max)))
        sums, choices = [0] * len(self.runs), list[list[int]]()
        for wish, (_, text) in zip(wanted, segments, strict=True):
            # For each run, the best one up to it for the part before.
            before = list(accumulate(range(len(sums)), partial(_better, sums)))
            choices.append(before)
            sums = [sums[before[each]] + self._gain(wish, each, len(text)) for each in range(len(sums))]
        places = [max(range(len(sums)), key=lambda each: sums[each])]
        for before in reversed(choices[1:]):
            places.append(before[places[-1]])
        return list(map(self._translated, reversed(places)))

    def _wanted(self, place: int, text: str) -> int:
        return place if text == self.runs[place].text else self._translated(place)

    def _translated(self, place: int) -> int:
        """Returns the nearest run that is translated."""
        places = (each for distance in range(len(self.runs)) for each in (place - distance, place + distance))
        return next(each for each in places if 0 <= each < len(self.runs) and not self.runs[each].is_kept)

    def _gain(self, wish: int, place: int, length: int) -> int:
        """Returns how good it is that a part of so many characters goes to a run instead of its own."""
        wanted, run = self.runs[wish], self.runs[place]
        if wish != place and length and (wanted.is_kept or run.is_kept):
            return -_NEVER
        return 2 * length * (run.formatting == wanted.formatting) + (place == wish)


def _next(places: Sequence[int], place: int) -> int:
    """Returns the first of some places, which are in order, from a place on, else that place."""
    found = bisect_left(places, place)
    return places[found] if found < len(places) else place


def _better(sums: Sequence[int], best: int, other: int) -> int:
    return other if sums[other] > sums[best] else best
