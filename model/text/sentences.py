"""② Where the sentences of one line end."""

import re
from collections.abc import Iterator

import sentencex

_WINDOW = 1000
"""Characters that are split at a time, as the splitter's time is quadratic outside ASCII."""
_SHORTEST_STEP = 250
_TAIL = 50
"""Characters before a boundary that are examined."""

_CLAUSE_END = re.compile(r"[,;:)–—](?=\s)|[、，；：]")
_WORD_END = re.compile(r"\S(?=\s)")
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
    """Returns the positions in a line where sentences end, the end of the line included.

    White space between two sentences belongs to the first. The time is linear in the length.

    Args:
        line: Any text without line breaks.
        language: Canonical code; an unknown language is split by English rules.
    """
    readable = line if line.isascii() else _SURROGATE.sub("\ufffd", line)
    return [end for end in _candidates(readable, language) if not _continues(readable, end, language)]


def middle(sentence: str) -> int:
    """Returns the position at which a sentence that is too long for a model is divided.

    It is behind the clause or else the word that ends nearest to the middle, or in the middle if the sentence
    is one word.

    Args:
        sentence: At least two characters.
    """
    half, quarter = len(sentence) / 2, max(len(sentence) // 4, 1)
    for boundary in (_CLAUSE_END, _WORD_END):
        ends = (match.end() for match in boundary.finditer(sentence, quarter - 1, len(sentence) - quarter))
        if (nearest := min(ends, key=lambda end: abs(end - half), default=0)) > 0:
            return nearest
    return len(sentence) // 2


def _candidates(line: str, language: str) -> Iterator[int]:
    """Yields the splitter's ends, from windows that start at a sentence if possible."""
    start = 0
    while start + _WINDOW < len(line):
        ends = _window_ends(line[start : start + _WINDOW], language)
        yield from (start + end for end in ends[:-1])
        last_sentence = [0, *ends][-2]
        start += last_sentence if last_sentence >= _SHORTEST_STEP else _WINDOW
    yield from (start + end for end in _window_ends(line[start:], language))


def _window_ends(text: str, language: str) -> list[int]:
    """Returns the ends of the splitter's parts, which may differ from the text in white space."""
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


def _continues(line: str, end: int, language: str) -> bool:
    """Returns whether the sentence continues after `end`, contrary to the splitter's result."""
    tail, head = line[max(0, end - _TAIL) : end], line[end : end + 2]
    if not head:
        return False
    if tail[-1:].isspace():
        return _is_abbreviated(tail, language)
    return _is_attached(tail, head, language)


def _is_abbreviated(tail: str, language: str) -> bool:
    """Returns whether an abbreviation ends there, as in M. Dupont; the splitter knows English ones."""
    return bool(
        (language != "en" and _INITIAL.search(tail))
        or (language in _ORDINAL_LANGUAGES and _ORDINAL.search(tail))
        or (language == "fr" and _FRENCH_TITLE.search(tail))
    )


def _is_attached(tail: str, head: str, language: str) -> bool:
    """Returns whether the text continues: file.Txt, J.-C., ２.５, x.org/?Q=1, 「はい。」と."""
    if tail.endswith("."):
        return _LATIN_OR_DIGIT.match(head) is not None
    if tail.endswith(("!", "?")):
        word = tail.split()[-1]
        return "/" in word or "@" in word
    return language == "ja" and _JAPANESE_QUOTE.search(tail) is not None and head.startswith(("と", "って"))
