"""③ ⑦ Strings that a translation repeats letter for letter: placeholders, code, addresses, figures.

The network reads a number of three digits in place of such a string, because networks copy short numbers.
The translation gets the string back in place of the number. If the network has lost the number, the string is
inserted where it stood in proportion. So each is in the translation exactly as often as in the source.

Short numbers without a unit and times of day are translated, because languages write them differently:
`20,000` and `20 000` are `20.000` in German, and `14:30` is `14 h 30` in French.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from model.text.kept_patterns import KEPT, LETTER, WORD_END, WORD_START, may_hold_strings
from model.text.languages import UNSPACED_LETTER, words_in_other_scripts

_CLOSING = ".,;:!?'"
_BRACKETS = {")": "(", "]": "["}
_ANY_LETTER = re.compile(r"\w")  # which would belong to the web address before it
_NUMBER = re.compile(r"\d+")
_FEW = 683  # numbers of three digits; 131 steps through all of them
_BOUNDARY = re.compile(f"\\s|$|(?={UNSPACED_LETTER.pattern})")
_OPENING = "([{<«‹\"'“„‘-–—/（《「『：，、；。！？"  # full-width marks have no space behind them in any case
_LONGEST = 400  # characters of a string that is kept


@dataclass(frozen=True, slots=True)
class KeptString:
    """A string that is not translated.

    Attributes:
        text: The string, or several that follow each other.
        number: The digits that stand for it.
        place: Where it begins, as a fraction of the rest of the sentence.
        is_glued: Whether it is joined to the letters that precede and that follow it.
    """

    text: str
    number: str
    place: float
    is_glued: tuple[bool, bool]


def with_numbers(
    text: str,
    keep: Sequence[str] = (),
    used: Collection[str] = (),
    language: str = "",
    terms: Sequence[tuple[int, int]] = (),
) -> tuple[str, tuple[KeptString, ...]]:
    """Returns a sentence with a number in place of each string to keep, and these strings.

    Args:
        text: A sentence.
        keep: Further strings to keep; white space is kept in any case.
        used: Numbers that the sentence gets by other means.
        language: Code of its language: words in other scripts than that and Latin are kept too.
        terms: Start and end of each term of a glossary, in order. Only `keep` precedes a term, and what
            begins before it, such as a web address.
    """
    keep = [each for each in keep if not each.isspace()]
    other_scripts = words_in_other_scripts(text, language) if language else None
    if not (keep or other_scripts or may_hold_strings(text)):
        return text, ()
    longest_first = map(_whole, sorted(keep, key=len, reverse=True))
    listed = re.compile("|".join(longest_first)) if keep else None
    used = {*used, *_NUMBER.findall(text)}
    numbers = (number for number in _numbers() if number not in used)
    parts, kept, end = list[str](), list[KeptString](), 0
    for begin, stop in _joined(_spans(text, listed, other_scripts, terms)):
        before, behind = text[:begin][-1:], text[stop : stop + 1]
        is_apart = (
            not before or before.isspace() or before in _OPENING or UNSPACED_LETTER.match(before) is not None,
            not behind.isalnum() or UNSPACED_LETTER.match(behind) is not None,
        )
        string = text[begin:stop]
        place = begin / max(len(text) - len(string), 1)
        number = next(numbers)
        kept.append(KeptString(string, number, place, _glue(string, *is_apart)))
        parts += [text[end:begin], "" if is_apart[0] else " ", number, "" if is_apart[1] else " "]
        end = stop
    return "".join([*parts, text[end:]]), tuple(kept)


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the spans, neighbours as one."""
    joined: list[tuple[int, int]] = []
    for begin, end in spans:
        if joined and joined[-1][1] == begin:
            begin = joined.pop()[0]
        joined.append((begin, end))
    return joined


def _glue(string: str, is_apart_before: bool, is_apart_behind: bool) -> tuple[bool, bool]:
    """Returns where no space stands; between two words, a tag is glued to the inside of its element."""
    is_between_words = not (is_apart_before or is_apart_behind)
    if is_between_words and string.startswith("<"):
        return string.startswith("</"), not string.startswith("</")
    return not is_apart_before, not is_apart_behind


def kept_spans(text: str) -> list[tuple[int, int]]:
    """Returns start and end of each string of a text that is not translated, in order."""
    if not may_hold_strings(text):
        return []
    return list(_spans(text))


def without_kept_strings(text: str) -> str:
    """Returns a text without placeholders and the like, which say nothing of its language."""
    return KEPT.sub(" ", text) if may_hold_strings(text) else text


def with_kept_strings(translation: str, kept: Sequence[KeptString]) -> str:
    """Returns a translation in which each string stands once, in place of its number.

    Args:
        translation: Text that the network produced.
        kept: What `with_numbers` returned.
    """
    placed: list[KeptString] = []
    for string in kept:  # all numbers first, so that no string is put into another one
        is_lost = re.search(rf"(?<!\d){string.number}(?!\d)", translation) is None
        translation = _inserted(translation, string) if is_lost else translation
        placed.append(replace(string, is_glued=(False, False)) if is_lost else string)
    for string in placed:
        before, after = (r"\s?" if glued else "" for glued in string.is_glued)
        number = rf"(?<!\d){string.number}(?!\d)"
        if (found := re.search(f"{before}{number}{after}", translation)) is None:
            continue
        head, rest = translation[: found.start()], re.sub(rf"\s?{number}", "", translation[found.end() :])
        if not string.is_glued[0] and LETTER.match(head[-1:]):
            head += " "
        letter = _ANY_LETTER if "://" in string.text else LETTER
        if not string.is_glued[1] and letter.match(rest):
            rest = " " + rest
        translation = head + string.text + rest
    return translation


def _spans(
    text: str,
    listed: re.Pattern[str] | None = None,
    other_scripts: re.Pattern[str] | None = None,
    terms: Sequence[tuple[int, int]] = (),
) -> Iterator[tuple[int, int]]:
    """Yields start and end of each string to keep that is not too long.

    Where several begin, it is the one listed, or else the term of a glossary, which is not kept. A term that
    ends a figure, as its unit, is not kept either.
    """
    position = place = 0
    patterns = [pattern for pattern in (listed, KEPT, other_scripts) if pattern]
    found = [pattern.search(text) for pattern in patterns]
    while match := min(filter(None, found), key=re.Match.start, default=None):
        begin, stop = match.span()
        while place < len(terms) and terms[place][0] < position:
            place += 1
        start, end = terms[place] if place < len(terms) else (len(text), len(text))
        if start <= begin and match.re is not listed:
            position = end
        elif match.re is KEPT and end == stop and _is_figure(text[begin:start]):
            position = end
            if figure := KEPT.match(text, begin, start):
                yield figure.span()
        else:
            if match.re is other_scripts and start < stop:
                stop = begin + len(text[begin:start].rstrip())
            position = stop
            if stop - begin <= _LONGEST:
                yield begin, _end(text, match) if match.re is KEPT else stop
        found = [
            pattern.search(text, position) if each and each.start() < position else each
            for pattern, each in zip(patterns, found, strict=True)
        ]


def _is_figure(text: str) -> bool:
    """Returns whether a text is a figure and the space before its unit."""
    return text[-1].isspace() and not any(map(str.isalpha, text))


def _whole(string: str) -> str:
    """Returns a pattern for a string, as whole words where its language has spaces between words.

    It matches the string as it is, with a capital, and in capitals.
    """
    is_word = [edge.isalnum() and UNSPACED_LETTER.match(edge) is None for edge in (string[:1], string[-1:])]
    spellings = dict.fromkeys([string, string[:1].upper() + string[1:], string.upper()])
    return WORD_START * is_word[0] + f"(?:{'|'.join(map(re.escape, spellings))})" + WORD_END * is_word[1]


def _end(text: str, match: re.Match[str]) -> int:
    """Returns the end of a match; that of a web address excludes punctuation and brackets around it."""
    end = match.end()
    while match["web"] and end > match.start():
        last, address = text[end - 1], text[match.start() : end]
        opening = _BRACKETS.get(last)
        if last not in _CLOSING and (opening is None or address.count(opening) >= address.count(last)):
            break
        end -= 1
    return end


def _numbers() -> Iterator[str]:
    """Yields numbers of three digits that do not look like years, prices or a sequence; then longer ones."""
    yield from (str(217 + 131 * i % _FEW) for i in range(_FEW))
    yield from map(str, count(1000))


def _inserted(translation: str, string: KeptString) -> str:
    """Returns a translation with a string's number at the boundary of words that is nearest to its place."""
    wanted = round(string.place * len(translation))
    boundaries = (match.start() for match in _BOUNDARY.finditer(translation))
    place = min((0, *boundaries), key=lambda each: abs(each - wanted))
    head, tail = translation[:place].rstrip(), translation[place:].lstrip()
    is_apart = UNSPACED_LETTER.search(translation) is None
    before, behind = (" " * (is_apart or each.isdigit()) for each in (head[-1:], tail[:1]))
    return (head + before if head else "") + string.number + (behind + tail if tail else "")
