"""② Tags inside a text, each one character of private use: a text is translated without them.

The character says which of five kinds a tag is, and its number:

    opening and closing   the two tags of one element have the same number
    point                 a tag without an end, such as an image's, or one that lacks its partner
    note                  an element that stays behind the word before it, such as the number of a footnote
    kept                  an element whose text is not translated; it stays in the text as a word of its own

`model.translation.tag_placement` sets the tags in the translation.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MAX_NUMBER: Final = 0x3FFF
"""Largest number of a tag."""
_OPENING, _CLOSING, _POINT, _KEPT, _NOTE = (0xF0000 + kind * (MAX_NUMBER + 1) for kind in range(5))
_TAG = re.compile(f"[{chr(_OPENING)}-{chr(_POINT + MAX_NUMBER)}{chr(_NOTE)}-{chr(_NOTE + MAX_NUMBER)}]")
ANY_TAG: Final = re.compile(f"[{chr(_OPENING)}-{chr(_NOTE + MAX_NUMBER)}]")
"""Matches a tag of any kind."""
KEPT_TAG: Final = f"[{chr(_KEPT)}-{chr(_KEPT + MAX_NUMBER)}]"
"""A pattern for an element whose text is not translated."""


def opening_tag(number: int) -> str:
    """Returns the opening tag of an element."""
    return chr(_OPENING + number)


def closing_tag(number: int) -> str:
    """Returns the closing tag of an element."""
    return chr(_CLOSING + number)


def point_tag(number: int) -> str:
    """Returns a tag without an end."""
    return chr(_POINT + number)


def kept_tag(number: int) -> str:
    """Returns what stands for an element whose text is not translated."""
    return chr(_KEPT + number)


def note_tag(number: int) -> str:
    """Returns what stands for an element that stays behind the word before it."""
    return chr(_NOTE + number)


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag and where it stands.

    Attributes:
        offset: Characters of text before it; other tags do not count.
        mark: The character that stands for it: an opening, closing or point tag, or a note.
    """

    offset: int
    mark: str

    @property
    def is_opening(self) -> bool:
        """Returns whether an element begins here."""
        return ord(self.mark) < _CLOSING

    @property
    def is_closing(self) -> bool:
        """Returns whether an element ends here."""
        return _CLOSING <= ord(self.mark) < _POINT

    @property
    def is_note(self) -> bool:
        """Returns whether it stays behind the word before it."""
        return ord(self.mark) >= _NOTE

    @property
    def number(self) -> int:
        """The number of the element or point."""
        return (ord(self.mark) - _OPENING) & MAX_NUMBER


def without_tags(text: str) -> tuple[str, tuple[Tag, ...]]:
    """Returns a text without its tags except kept ones, and these tags."""
    if text.isascii() or _TAG.search(text) is None:
        return text, ()
    found = list(_TAG.finditer(text))
    tags = tuple(Tag(match.start() - count, match[0]) for count, match in enumerate(found))
    return _TAG.sub("", text), tags


def with_tags(text: str, tags: Sequence[Tag]) -> str:
    """Returns a text with tags in it; it is the inverse of `without_tags`.

    Args:
        text: A text without tags.
        tags: In order.
    """
    parts, position = [], 0
    for tag in tags:
        parts += [text[position : tag.offset], tag.mark]
        position = tag.offset
    return "".join([*parts, text[position:]])


def distributed(
    text: str, tags: Sequence[Tag], spans: Sequence[tuple[int, int]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Divides the tags of a text among its sentences and the gaps between them.

    A tag at the edge of a sentence belongs to the gap, unless its element begins or ends inside the sentence.

    Args:
        text: A text without tags.
        tags: Its tags, in order.
        spans: Start and end of each sentence.

    Returns:
        The sentences and the gaps with their tags, one gap more than sentences.
    """
    offsets, partners = [tag.offset for tag in tags], _partners(tags)
    inner = [(bisect_right(offsets, start), bisect_left(offsets, end)) for start, end in spans]
    sentences, gaps = [], []
    first, position = 0, 0
    ends = [*(begin for begin, _ in inner[1:]), len(tags)]
    for (start, end), (begin, stop), following in zip(spans, inner, ends, strict=False):
        within = range(begin, stop)
        begin = next((place for place in range(first, begin) if partners[place] in within), begin)
        behind = reversed(range(stop, following))
        stop = next((place + 1 for place in behind if partners[place] in within), stop)
        gaps.append(_part(text, tags[first:begin], position, start))
        sentences.append(_part(text, tags[begin:stop], start, end))
        first, position = stop, end
    gaps.append(_part(text, tags[first:], position, len(text)))
    return tuple(sentences), tuple(gaps)


def _partners(tags: Sequence[Tag]) -> list[int]:
    """Returns the place of the other tag of each tag's element; -1 if there is none."""
    partners, opened = [-1] * len(tags), dict[int, int]()
    for place, tag in enumerate(tags):
        if tag.is_opening:
            opened[tag.number] = place
        elif tag.is_closing and (partner := opened.pop(tag.number, -1)) >= 0:
            partners[partner], partners[place] = place, partner
    return partners


def _part(text: str, tags: Sequence[Tag], start: int, end: int) -> str:
    """Returns a part of a text with tags; those outside of the part stand at its edges."""
    inside = [Tag(min(max(tag.offset, start), end) - start, tag.mark) for tag in tags]
    return with_tags(text[start:end], inside)
