"""② Tags inside a text, each one character of private use: a text is translated without them.

The character says which of five kinds a tag is, and its number:

    opening and closing   the two tags of one element have the same number
    point                 a tag without an end, such as an image's, or one that lacks its partner
    note                  an element that stays behind the word before it, such as the number of a footnote
    kept                  an element whose text is not translated; it stays in the text as a word of its own

⑦ `set_tags` sets the tags in the translation, by the alignment of words. An element goes around the
translation of its words, which is one span of the translation: among all spans that nesting allows, the one
that maximises the sum over its words of P(word belongs to the element) − ½. A tag without an end goes before
the translation of the word behind it, and a note behind that of the word before it. Every tag is set exactly
once, and the words do not change.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from itertools import accumulate
from typing import Final

from model.text.languages import UNSPACED_LETTERS
from model.text.normalisation import SPACE

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


_SPACED = rf"[^\W{UNSPACED_LETTERS}]"
_WORD: Final = re.compile(rf"[{UNSPACED_LETTERS}]|{_SPACED}+(?:['’-]{_SPACED}+)*|[^\w\s]")
"""Matches a word, a letter of a script without spaces between words, or a punctuation mark."""
_SPECIAL = re.compile("<.+>")
# More are set in proportion, which takes linear time.
_MAX_TAGS: Final = 200
# Decides where one token stands for several words, as for a word and the mark behind it.
_BIAS: Final = 0.1

Span = tuple[int, int]
Alignment = Sequence[Sequence[float]]
"""For each target token, weights of the source tokens."""
Weights = Sequence[Sequence[float]]
"""For each target word, weights of the source words, which sum to 1 or are all 0."""


@dataclass(frozen=True)
class Side:
    """The text of one side, and the tokens that the network read or wrote for it.

    Attributes:
        text: The text without tags.
        pieces: Its tokens as text, in order; special ones included.
        kept: Strings of the text that are not translated, each with the number in its place in the tokens.
    """

    text: str
    pieces: Sequence[str]
    kept: Sequence[tuple[str, str]] = ()

    @cached_property
    def kept_spans(self) -> list[tuple[int, int, str]]:
        """Start and end of each kept string in the text, and its number, in order; apart."""
        found, after = list[tuple[int, int, str]](), dict[str, int]()
        for string, number in self.kept:
            start = self.text.find(string, after.get(string, 0))
            if start >= 0:
                after[string] = start + len(string)
                found.append((start, after[string], number))
        ends = accumulate((end for _, end, _ in sorted(found)), max, initial=0)
        return [span for span, end in zip(sorted(found), ends, strict=False) if span[0] >= end]

    @cached_property
    def words(self) -> list[Span]:
        """Start and end of each word and punctuation mark; a kept string is one word."""
        words, position = list[Span](), 0
        for start, end, _ in self.kept_spans:
            words += [match.span() for match in _WORD.finditer(self.text, position, start)]
            words.append((start, end))
            position = end
        return [*words, *(match.span() for match in _WORD.finditer(self.text, position))]


@dataclass
class _Element:
    """An element of a sentence, or a tag without an end.

    Attributes:
        opening: Its opening tag; empty if that stands before the sentence.
        start: Where it begins in the source, characters.
        index: Its place among the tags of the sentence.
        end: Where it ends.
        closing: Its closing tag; empty if that stands behind the sentence, or if it has none.
        at_start: Whether it must begin with the element around it.
        at_end: Whether it must end with the element around it.
        children: The elements in it, in order.
        words: First source word, and the first one behind it.
        span: The same in the translation.
    """

    opening: str
    start: int
    index: int
    end: int = -1
    closing: str = ""
    at_start: bool = False
    at_end: bool = False
    children: list["_Element"] = field(default_factory=list)
    words: Span = (0, 0)
    span: Span = (0, 0)

    @property
    def is_empty(self) -> bool:
        """Returns whether it has no word."""
        return self.words[0] >= self.words[1]


def set_tags(tags: Sequence[Tag], source: Side, target: Side, alignment: Alignment) -> str:
    """Returns a translation with the tags of its source.

    Args:
        tags: Tags of the source, in order, none of them kept ones.
        source: The sentence and its tokens.
        target: The translation and its tokens.
        alignment: For each target token, a weight for each source token; empty if it is not known.
    """
    if target.text == source.text:
        return with_tags(target.text, tags)
    if len(tags) > _MAX_TAGS or not alignment:
        return _in_order(tags, len(source.text), target)
    source_words, target_words = source.words, target.words
    weights = _word_alignment(
        alignment,
        _shares(_token_spans(source), source_words),
        _shares(_token_spans(target), target_words),
        (len(target_words), len(source_words)),
    )
    _leave_out_marks(weights, _are_marks(source.text, source_words), _are_marks(target.text, target_words))
    root = _tree(tags, len(source.text), source_words)
    _count_words(root, source_words)
    _place(root, (0, len(target_words)), weights)
    return "".join(_written(root, target.text, target_words, 0, len(target.text)))


def _are_marks(text: str, words: Sequence[Span]) -> list[bool]:
    return [end - begin == 1 and not text[begin].isalnum() for begin, end in words]


def _leave_out_marks(weights: list[list[float]], in_source: list[bool], in_target: list[bool]) -> None:
    """Keeps punctuation that only the translation has out of elements that it stands at the edge of."""
    for row, is_mark in zip(weights, in_target, strict=True):
        if is_mark and row and not in_source[row.index(max(row))]:
            row[:] = [0.0] * len(row)


def _token_spans(side: Side) -> list[Span]:
    """Returns the characters of the text that each token stands for."""
    read = ["" if _SPECIAL.fullmatch(piece) else piece.replace(SPACE, " ") for piece in side.pieces]
    numbered, origins, position = "", list[int](), 0
    for start, stop, number in side.kept_spans:
        numbered += side.text[position:start] + number
        origins += range(position, start)
        origins += (start + (stop - start) * digit // len(number) for digit in range(len(number)))
        position = stop
    origins += range(position, len(side.text) + 1)
    places = [origins[place] for place in _places("".join(read), numbered + side.text[position:])]
    spans, end = [], 0
    for piece in read:
        begin, end = end, end + len(piece)
        spans.append((places[begin], places[end]))
    return spans


def _places(read: str, text: str) -> list[int]:
    """Returns for each position in `read`, the end included, the corresponding position in `text`."""
    read, text = _folded(read), _folded(text)
    places = [0] * (len(read) + 1)
    for _, begin, end, first, last in SequenceMatcher(None, read, text, autojunk=False).get_opcodes():
        for position in range(begin, end):
            places[position] = first + (position - begin) * (last - first) // (end - begin)
    places[len(read)] = len(text)
    return places


def _folded(text: str) -> str:
    """Returns a text in lower case, without changing its length."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(each.lower()[:1] or each for each in text)


def _shares(tokens: Sequence[Span], words: Sequence[Span]) -> list[list[int]]:
    """Returns for each token the words that it overlaps."""
    shares, first = [], 0
    for begin, end in tokens:
        while first < len(words) and words[first][1] <= begin:
            first += 1
        last = first
        while last < len(words) and words[last][0] < end:
            last += 1
        shares.append([*range(first, last)])
    return shares


def _word_alignment(
    alignment: Alignment,
    source_shares: Sequence[Sequence[int]],
    target_shares: Sequence[Sequence[int]],
    shape: tuple[int, int],
) -> list[list[float]]:
    """Returns for each target word the weights of the source words, which sum to 1, or are all 0.

    Attention prefers some source words wherever the translation is. Therefore each source word's weights are
    divided by their sum over the target words first.
    """
    weights = [[0.0] * shape[1] for _ in range(shape[0])]
    for row, targets in zip(alignment, target_shares, strict=True):
        for weight, sources in zip(row, source_shares, strict=True):
            for source in sources:
                for target in targets:
                    weights[target][source] += weight / len(sources)
    totals = [sum(column) or 1.0 for column in zip(*weights, strict=True)]
    for place, row in enumerate(weights):
        for source, total in enumerate(totals):
            row[source] *= (1 - _BIAS * abs(place / shape[0] - source / shape[1])) / total
    return [[weight / (sum(row) or 1.0) for weight in row] for row in weights]


def _tree(tags: Sequence[Tag], length: int, words: Sequence[Span]) -> _Element:
    """Returns an element that stands for the sentence, with the elements in it, properly nested."""
    root = _Element("", 0, -1, length)
    opened = [root]
    for index, tag in enumerate(tags):
        numbers = [element.closing for element in opened[1:]]
        if tag.is_opening:
            # Until its end is found, an element remembers which closing tag that is.
            opened.append(_Element(tag.mark, tag.offset, index, closing=closing_tag(tag.number)))
        elif tag.is_closing and tag.mark in numbers:
            while opened[-1].closing != tag.mark:
                _give_up(opened)
            element = opened.pop()
            element.end = tag.offset
            opened[-1].children.append(element)
        elif tag.is_closing and len(opened) == 1:
            element = _Element("", 0, -1, tag.offset, tag.mark, at_start=True, children=root.children)
            root.children = [element]
        elif tag.is_note:
            opened[-1].children.append(_noted(opened[-1], tag, index, words))
        else:
            opened[-1].children.append(_Element(tag.mark, tag.offset, index, tag.offset))
    while len(opened) > 1:
        element = opened.pop()
        element.end, element.closing, element.at_end = length, "", True
        opened[-1].children.append(element)
    return root


def _noted(parent: _Element, tag: Tag, index: int, words: Sequence[Span]) -> _Element:
    """Returns an element that ends with a note: around the element before it, else the word before it."""
    last = parent.children[-1] if parent.children else None
    if last is not None and last.start < last.end == tag.offset:
        return _Element("", last.start, index, tag.offset, tag.mark, children=[parent.children.pop()])
    word = max((start for start, _ in words if start < tag.offset), default=tag.offset)
    start = max(word, parent.start if last is None else last.end)
    return _Element("", start, index, tag.offset, tag.mark)


def _give_up(opened: list[_Element]) -> None:
    """Makes the innermost element, which ends after an element around it, a tag without an end."""
    element = opened.pop()
    point = _Element(element.opening, element.start, element.index, element.start)
    opened[-1].children += [point, *element.children]


def _count_words(element: _Element, words: Sequence[Span]) -> None:
    """Finds the source words of an element and of all elements in it."""
    ends = [end for _, end in words]
    starts = [start for start, _ in words]
    first, last = bisect_right(ends, element.start), bisect_left(starts, element.end)
    element.words = first, max(first, last) if element.start < element.end else first
    for child in element.children:
        _count_words(child, words)


def _place(element: _Element, span: Span, weights: Weights) -> None:
    """Sets the span of an element, and those of the elements in it."""
    element.span = span
    with_words = [child for child in element.children if not child.is_empty]
    scores = {id(child): _scores(child, weights) for child in with_words}

    def rank(child: _Element) -> tuple[bool, float, int]:
        is_pinned = child.at_start or child.at_end
        return not is_pinned, -_best_span(child, [span], scores[id(child)])[0], child.index

    free = [span]
    for child in sorted(with_words, key=rank):
        is_whole = len(with_words) == 1 and child.words == element.words
        chosen = span if is_whole else _best_span(child, free, scores[id(child)])[1]
        free = [part for each in free for part in _without(each, chosen)]
        _place(child, chosen, weights)
    for child in element.children:
        if child.is_empty:
            place = _point(child, element, with_words, weights)
            _place(child, (place, place), weights)


def _scores(element: _Element, weights: Weights) -> list[float]:
    """Returns for each target word the probability that it belongs to an element, less one half."""
    first, last = element.words
    return [sum(row[first:last]) - 0.5 for row in weights]


def _best_span(element: _Element, free: Sequence[Span], scores: Sequence[float]) -> tuple[float, Span]:
    """Returns the highest sum of scores of a span that an element may have, and this span.

    Args:
        element: An element.
        free: The spans of the translation that it may lie in, in order.
        scores: The score of each target word.
    """
    if element.at_end:
        begin, end = free[-1] if free else (len(scores), len(scores))
        total, (first, last) = _longest_sum(scores[begin:end][::-1], is_pinned=True)
        return total, (end - last, end - first)
    found = [
        (total, (begin + first, begin + last))
        for begin, end in (free[:1] if element.at_start else free)
        for total, (first, last) in [_longest_sum(scores[begin:end], is_pinned=element.at_start)]
    ]
    return max(found, key=lambda each: each[0], default=(0.0, (len(scores), len(scores))))


def _longest_sum(scores: Sequence[float], *, is_pinned: bool) -> tuple[float, Span]:
    """Returns the highest sum of a span of numbers, and this span (Kadane's algorithm).

    Args:
        scores: At least one number.
        is_pinned: Whether the span must begin with the first number.
    """
    best, span, begin, total = -math.inf, (0, 0), 0, 0.0
    for place, score in enumerate(scores):
        if total < 0 and not is_pinned:
            begin, total = place, 0.0
        total += score
        if total > best:
            best, span = total, (begin, place + 1)
    return best, span


def _without(span: Span, taken: Span) -> list[Span]:
    parts = [(span[0], min(span[1], taken[0])), (max(span[0], taken[1]), span[1])]
    return [(begin, end) for begin, end in parts if begin < end]


def _point(empty: _Element, parent: _Element, siblings: Sequence[_Element], weights: Weights) -> int:
    """Returns the target word before which an element without words stands."""
    begin, end = parent.span
    following = empty.words[0]
    if begin == end or following >= parent.words[1]:
        return end
    for sibling in siblings:
        if sibling.words[0] <= following < sibling.words[1]:
            return sibling.span[0 if sibling.start >= empty.start else 1]
    if following == parent.words[0]:
        return begin
    place = max(range(begin, end), key=lambda each: weights[each][following])
    around = (each.span[0] for each in siblings if each.span[0] < place < each.span[1])
    return next(around, place)


def _written(element: _Element, text: str, words: Sequence[Span], begin: int, end: int) -> Iterator[str]:
    """Yields a part of the text that an element contains, with the tags of the elements in it."""
    for child in sorted(element.children, key=lambda each: (each.span[0], not _is_point(each), each.index)):
        first, last = (min(max(each, begin), end) for each in _characters(child.span, element.span, words))
        yield from (text[begin:first], child.opening)
        yield from _written(child, text, words, first, last)
        yield child.closing
        begin = last
    yield text[begin:end]


def _is_point(element: _Element) -> bool:
    return element.span[0] == element.span[1]


def _characters(span: Span, parent: Span, words: Sequence[Span]) -> Span:
    first, last = span
    if first < last:
        return words[first][0], words[last - 1][1]
    place = words[first][0] if first < parent[1] else words[first - 1][1] if first else 0
    return place, place


def _in_order(tags: Sequence[Tag], length: int, target: Side) -> str:
    """Returns a translation with the tags in their order, each before or behind the word in proportion."""
    text = target.text
    words = [*target.words, (len(text), len(text))]
    places = [tag.offset * (len(words) - 1) // max(length, 1) for tag in tags]
    offsets = [
        words[max(place - 1, 0)][1] if tag.is_note else words[place][0]
        for place, tag in zip(places, tags, strict=True)
    ]
    ordered = zip(accumulate(offsets, max), tags, strict=True)
    return with_tags(text, [Tag(offset, tag.mark) for offset, tag in ordered])
