"""⑦ Sets the tags of a sentence in its translation, by the alignment of words.

An element goes around the translation of its words, which is one span of the translation: among all spans
that nesting allows, the one that maximises the sum over its words of P(word belongs to the element) − ½. A
tag without an end goes before the translation of the word behind it, and a note behind that of the word
before it. Every tag is set exactly once, and the words do not change.
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
from model.text.tags import Tag, closing_tag, with_tags

_SPACED = rf"[^\W{UNSPACED_LETTERS}]"
_WORD: Final = re.compile(rf"[{UNSPACED_LETTERS}]|{_SPACED}+(?:['’-]{_SPACED}+)*|[^\w\s]")
"""Matches a word, a letter of a script without spaces between words, or a punctuation mark."""
_SPECIAL_TOKEN = re.compile("<.+>")
_MAX_TAGS: Final = 200
"""More are set in proportion, which takes linear time."""
_DIAGONAL_PREFERENCE: Final = 0.1
"""Decides where one token stands for several words, as for a word and the mark behind it."""

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

    def is_punctuation(self, word: int) -> bool:
        """Returns whether a word is a punctuation mark."""
        begin, end = self.words[word]
        return end - begin == 1 and not self.text[begin].isalnum()


@dataclass(kw_only=True)
class _Element:
    """An element of a sentence, or a tag without an end.

    Attributes:
        opening: Its opening tag; empty if that stands before the sentence.
        start: Where it begins in the source, characters.
        index: Its place among the tags of the sentence; -1 if it begins before the sentence.
        end: Where it ends; -1 while that is not known.
        closing: Its closing tag; empty if that stands behind the sentence, or if it has none.
        at_start: Whether it must begin with the element around it.
        at_end: Whether it must end with the element around it.
        children: The elements in it, in order.
        words: First source word, and the first one behind it.
        span: The same in the translation.
    """

    opening: str = ""
    start: int = 0
    index: int = -1
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
        return _set_in_proportion(tags, len(source.text), target)
    weights = _word_alignment(alignment, source, target)
    _unalign_added_punctuation(weights, source, target)
    root = _element_tree(tags, len(source.text), source.words)
    _find_source_words(root, source.words)
    _find_spans(root, (0, len(target.words)), weights)
    return "".join(_tagged_parts(root, target.text, target.words, 0, len(target.text)))


def _word_alignment(alignment: Alignment, source: Side, target: Side) -> list[list[float]]:
    """Returns for each target word the weights of the source words, which sum to 1, or are all 0.

    Attention prefers some source words wherever the translation is. Therefore each source word's weights are
    divided by their sum over the target words first.
    """
    num_targets, num_sources = len(target.words), len(source.words)
    weights = [[0.0] * num_sources for _ in range(num_targets)]
    words_of_source_tokens = _words_of_tokens(source)
    for row, targets in zip(alignment, _words_of_tokens(target), strict=True):
        for weight, sources in zip(row, words_of_source_tokens, strict=True):
            for i in sources:
                for j in targets:
                    weights[j][i] += weight / len(sources)
    totals = [sum(column) or 1.0 for column in zip(*weights, strict=True)]
    for j, row in enumerate(weights):
        for i, total in enumerate(totals):
            row[i] *= (1 - _DIAGONAL_PREFERENCE * abs(j / num_targets - i / num_sources)) / total
    sums = [sum(row) or 1.0 for row in weights]
    return [[weight / total for weight in row] for row, total in zip(weights, sums, strict=True)]


def _unalign_added_punctuation(weights: list[list[float]], source: Side, target: Side) -> None:
    """Keeps punctuation that only the translation has out of elements that it stands at the edge of."""
    for j, row in enumerate(weights):
        if row and target.is_punctuation(j) and not source.is_punctuation(row.index(max(row))):
            row[:] = [0.0] * len(row)


def _words_of_tokens(side: Side) -> list[list[int]]:
    """Returns for each token the words that it overlaps."""
    words_of_tokens, first = [], 0
    for begin, end in _token_spans(side):
        while first < len(side.words) and side.words[first][1] <= begin:
            first += 1
        last = first
        while last < len(side.words) and side.words[last][0] < end:
            last += 1
        words_of_tokens.append([*range(first, last)])
    return words_of_tokens


def _token_spans(side: Side) -> list[Span]:
    """Returns the characters of the text that each token stands for.

    The tokens say almost what the text does once each kept string is replaced by its number. Both are matched
    letter by letter, and the letters of a number are spread over those of the string that it stands for.
    """
    read = ["" if _SPECIAL_TOKEN.fullmatch(piece) else piece.replace(SPACE, " ") for piece in side.pieces]
    numbered, origins, position = "", list[int](), 0
    for start, stop, number in side.kept_spans:
        numbered += side.text[position:start] + number
        origins += range(position, start)
        origins += (start + (stop - start) * digit // len(number) for digit in range(len(number)))
        position = stop
    numbered += side.text[position:]
    origins += range(position, len(side.text) + 1)
    places = [origins[place] for place in _matching_positions("".join(read), numbered)]
    spans, end = [], 0
    for piece in read:
        begin, end = end, end + len(piece)
        spans.append((places[begin], places[end]))
    return spans


def _matching_positions(read: str, text: str) -> list[int]:
    """Returns for each position in `read`, the end included, the corresponding position in `text`."""
    read, text = _folded(read), _folded(text)
    if (start := read.find(text)) >= 0:  # as in most sentences; matching takes quadratic time
        return [min(max(position - start, 0), len(text)) for position in range(len(read) + 1)]
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


def _element_tree(tags: Sequence[Tag], length: int, words: Sequence[Span]) -> _Element:
    """Returns an element that stands for the sentence, with the elements in it, properly nested."""
    root = _Element(end=length)
    opened = [root]
    for index, tag in enumerate(tags):
        numbers = [element.closing for element in opened[1:]]
        if tag.is_opening:
            # Until its end is found, an element remembers which closing tag that is.
            closing = closing_tag(tag.number)
            opened.append(_Element(opening=tag.mark, start=tag.offset, index=index, closing=closing))
        elif tag.is_closing and tag.mark in numbers:
            while opened[-1].closing != tag.mark:
                _reduce_to_point(opened)
            element = opened.pop()
            element.end = tag.offset
            opened[-1].children.append(element)
        elif tag.is_closing and len(opened) == 1:
            children = root.children
            root.children = [_Element(end=tag.offset, closing=tag.mark, at_start=True, children=children)]
        elif tag.is_note:
            opened[-1].children.append(_element_before_note(opened[-1], tag, index, words))
        else:
            opened[-1].children.append(_point(tag.mark, tag.offset, index))
    while len(opened) > 1:
        element = opened.pop()
        element.end, element.closing, element.at_end = length, "", True
        opened[-1].children.append(element)
    return root


def _element_before_note(parent: _Element, tag: Tag, index: int, words: Sequence[Span]) -> _Element:
    """Returns an element that ends with a note: around the element before it, else the word before it."""
    last = parent.children[-1] if parent.children else None
    if last is not None and last.start < last.end == tag.offset:
        start, children = last.start, [parent.children.pop()]
    else:
        word = max((start for start, _ in words if start < tag.offset), default=tag.offset)
        start, children = max(word, parent.start if last is None else last.end), []
    return _Element(start=start, index=index, end=tag.offset, closing=tag.mark, children=children)


def _reduce_to_point(opened: list[_Element]) -> None:
    """Makes the innermost element, which ends after an element around it, a tag without an end."""
    element = opened.pop()
    point = _point(element.opening, element.start, element.index)
    opened[-1].children += [point, *element.children]


def _point(mark: str, offset: int, index: int) -> _Element:
    return _Element(opening=mark, start=offset, end=offset, index=index)


def _find_source_words(element: _Element, words: Sequence[Span]) -> None:
    """Finds the source words of an element and of all elements in it."""
    ends = [end for _, end in words]
    starts = [start for start, _ in words]
    first, last = bisect_right(ends, element.start), bisect_left(starts, element.end)
    element.words = first, max(first, last) if element.start < element.end else first
    for child in element.children:
        _find_source_words(child, words)


def _find_spans(element: _Element, span: Span, weights: Weights) -> None:
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
        _find_spans(child, chosen, weights)
    for child in element.children:
        if child.is_empty:
            place = _place_of_point(child, element, with_words, weights)
            _find_spans(child, (place, place), weights)


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


def _place_of_point(empty: _Element, parent: _Element, siblings: Sequence[_Element], weights: Weights) -> int:
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


def _tagged_parts(element: _Element, text: str, words: Sequence[Span], begin: int, end: int) -> Iterator[str]:
    """Yields a part of the text that an element contains, with the tags of the elements in it."""
    in_order = sorted(
        element.children, key=lambda each: (each.span[0], each.span[0] < each.span[1], each.index)
    )
    for child in in_order:
        first, last = (
            min(max(each, begin), end) for each in _character_span(child.span, element.span, words)
        )
        yield from (text[begin:first], child.opening)
        yield from _tagged_parts(child, text, words, first, last)
        yield child.closing
        begin = last
    yield text[begin:end]


def _character_span(span: Span, parent: Span, words: Sequence[Span]) -> Span:
    """Returns the characters of a span of words; where the span is empty, the place before the next word.

    Behind the last word of the element around it, it is the place behind that word.
    """
    first, last = span
    if first < last:
        return words[first][0], words[last - 1][1]
    place = words[first][0] if first < parent[1] else words[first - 1][1] if first else 0
    return place, place


def _set_in_proportion(tags: Sequence[Tag], length: int, target: Side) -> str:
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
