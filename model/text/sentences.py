"""② Where the sentences of one line end."""

import re
from collections.abc import Iterator

import sentencex

_WINDOW = 1000
"""Characters split at a time: the splitter's time is quadratic outside ASCII, ours linear."""
_SHORTEST_STEP = 250
_TAIL = 50
"""Characters before a boundary that can speak against it."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_LATIN_OR_DIGIT = re.compile("[!-\u024f０-９]")
_INITIAL = re.compile(r"(?<!\w)[A-ZÀ-Þ]\.\s+\Z")
_ORDINAL = re.compile(r"(?<!\d)(?:\d{1,2}|[IVX]+)\.\s+\Z")
_ORDINAL_LANGUAGES = frozenset(
    {"bs", "cs", "da", "de", "et", "fi", "fo", "hr", "hu", "is", "lv", "nb", "nn", "no", "sk", "sl", "sr"}
)
_FRENCH_TITLE = re.compile(r"(?<!\w)(?:MM|Mmes?|Mlles?|Mgr|Me|Ft|Ste?|Col|Gén)\.\s+\Z")
_JAPANESE_QUOTE = re.compile("[」』]\\Z")


def sentence_ends(line: str, language: str) -> list[int]:
    """Positions in a line where one sentence ends and the next begins, the line's end included.

    White space between two sentences belongs to the first. Time is linear in the length.

    Args:
        line: Any text without line breaks.
        language: Canonical code; one that is not known is split by English rules.
    """
    readable = _SURROGATE.sub("\ufffd", line)
    return [end for end in _candidates(readable, language) if not _goes_on(readable, end, language)]


def _candidates(line: str, language: str) -> Iterator[int]:
    """The splitter's ends, from windows of which each starts at a sentence where it can."""
    start = 0
    while start + _WINDOW < len(line):
        ends = _window_ends(line[start : start + _WINDOW], language)
        yield from (start + end for end in ends[:-1])
        last_sentence = [0, *ends][-2]
        start += last_sentence if last_sentence >= _SHORTEST_STEP else _WINDOW
    yield from (start + end for end in _window_ends(line[start:], language))


def _window_ends(text: str, language: str) -> list[int]:
    """Ends by the splitter's parts, found again in the text: it may have altered white space."""
    parts = sentencex.segment(language, text)
    if len(parts) <= 1:
        return [len(text)]
    ends: list[int] = []
    position = 0
    for part in parts:
        found = text.find(part, position)
        if found >= 0:
            position = found + len(part)
            ends.append(position)
    return [*(end for end in ends if end < len(text)), len(text)]


def _goes_on(line: str, end: int, language: str) -> bool:
    """Whether the sentence goes on after `end`, against the splitter's opinion."""
    tail, head = line[max(0, end - _TAIL) : end], line[end : end + 2]
    if not head:
        return False
    if tail[-1:].isspace():
        return _is_abbreviated(tail, language)
    return _is_attached(tail, head, language)


def _is_abbreviated(tail: str, language: str) -> bool:
    """M. Dupont, am 3. Oktober; the splitter itself knows the English ones."""
    return bool(
        (language != "en" and _INITIAL.search(tail))
        or (language in _ORDINAL_LANGUAGES and _ORDINAL.search(tail))
        or (language == "fr" and _FRENCH_TITLE.search(tail))
    )


def _is_attached(tail: str, head: str, language: str) -> bool:
    """file.Txt, J.-C., ２.５, x.org/?Q=1, 「はい。」と; after `!` a new sentence needs no space."""
    if tail.endswith("."):
        return _LATIN_OR_DIGIT.match(head) is not None
    if tail.endswith(("!", "?")):
        word = tail.split()[-1]
        return "/" in word or "@" in word
    return language == "ja" and _JAPANESE_QUOTE.search(tail) is not None and head.startswith(("と", "って"))
