"""② A text as sentences and the gaps between them; ⑧ and the text rebuilt with translations.

    gap sentence gap sentence … sentence gap

Only sentences are translated. Gaps come back unchanged: white space, line breaks, invisible characters, emoji
and list bullets at the edges of sentences, three dots before one and brackets around one, and text without
letters (an enumeration's `1.`, `---`, 42, 🙂). A line break or tab ends a sentence, unless the splitting says
otherwise. Tags change nothing (`model.text.tags`).
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Self

import sentencex

from model.text.kept_strings import kept_spans, without_kept_strings
from model.text.languages import canonical_code, gains_spaces
from model.text.normalisation import INVISIBLE
from model.text.tags import distributed, without_tags

Splitting = Literal["sentences", "paragraphs", "across_lines", "none"]
"""Where sentences end: at punctuation, line breaks and tabs; at punctuation and blank lines; only at
punctuation; only at the end of the text."""

_LINE_BREAK = "\n\v\f\r\x1c-\x1e\x85\u2028\u2029"
_LINE = re.compile(f"[^\t{_LINE_BREAK}]+")  # or a cell, where tabs divide a line
_BREAK = re.compile(f"[{_LINE_BREAK}]")
_BLANK_LINE = re.compile(r"\n[ \t\r]*+\n")
_PICTURES = (
    "\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"  # arrows, dingbats, emoji
    "\u200d\u20e3\ufe0e\ufe0f\U000e0020-\U000e007f"  # joiners and variation selectors
)
# Signs that are also emoji (Unicode's emoji-data.txt); ℹ would count as a letter.
_SIGNS = "\u00a9\u00ae\u203c\u2049\u2122\u2139\u3030\u303d\u3297\u3299"
_EDGE = f"[{re.escape(INVISIBLE)}{_PICTURES}{_SIGNS}]"
# Most sentences begin with a letter and end with a mark, with nothing around them.
_PLAIN_FIRST = re.compile("[A-Za-z](?![.)])")
_PLAIN_LAST = re.compile("[!-~]")
_KEY = "[0-9#*]"  # before the characters that turn it into a keycap
_TRAILING = re.compile(rf"(?:\u20e3\ufe0f?{_KEY}|{_EDGE})*+")  # of the reversed text
# A sign, a box to tick, or a letter, but no abbreviation such as z. B., v. Chr. and p. 5.
_BULLET = r"[-*+#>|•‣◦·–—]++(?=\s)|\[[ xX]\](?=\s)|[a-z](?:\)|\.(?=\s(?![a-z\d]|\w{1,5}\.)))(?=\s)"
_ELLIPSIS = r"\.{3,}+|…++"
_LEADING = re.compile(rf"(?:{_KEY}\ufe0f?\u20e3|{_EDGE}|{_BULLET}|{_ELLIPSIS})*+")
# A remark, whose brackets a network may lose; no label or abbreviation, which it copies: (b), [iv], (USA).
_LABEL = r"[(\[](?:[A-Za-z]|[ivx]{2,5}|[A-Z]{2,4})[)\]]"
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")  # in pairs, around text of another direction
_LAST_DIRECTION = re.compile(f".*{_DIRECTION.pattern}", re.DOTALL)
_BRACKETED = re.compile(rf"(?!{_LABEL})(?:\([^()]+\)|\[[^\[\]]+\]|（[^（）]+）|【[^【】]+】)")
_NARROW = str.maketrans("（）【】", "()[]")

_WINDOW = 1000
"""Characters that are split at a time, as the splitter's time is quadratic outside ASCII."""
_SHORTEST_STEP = 250
_TAIL = 50
"""Characters before a boundary that are examined."""

# Between the items of a menu, a title or a row of a table in one line, but not in P(A | B).
_SEPARATOR = re.compile(r"\s(?=[|•·](?:\s|\Z))(?![^()]{0,40}\))")
_CLAUSE_END = re.compile(r"[,;:)–—](?=\s)|[、，；：]")
_WORD_END = re.compile(r"\S(?=\s)")
# What may begin a string to keep in which a sentence seems to end: code, a placeholder, a tag, a call, maths.
_LONG_STRING = re.compile(r"[`{<\\]|\((?<=[\w$]\()|\[\[|\$[^$]*\$")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LATIN_OR_DIGIT = re.compile("[!-\u024f０-９]")
_INITIAL = re.compile(r"(?<!\w)[A-ZÀ-Þ]\.\s+\Z")
_ABBREVIATED_WORDS = re.compile(r"\w\.(?:-?\w+){1,3}\.\s+\Z")  # JJ.OO., c.-à-d.
_ORDINAL = re.compile(r"(?<!\d)(?:\d{1,2}|[IVX]+)\.\s+\Z")
_ORDINAL_LANGUAGES = frozenset(
    {"bs", "cs", "da", "de", "et", "fi", "fo", "hr", "hu", "is", "lv", "nb", "nn", "no", "sk", "sl", "sr"}
)
_FRENCH_TITLE = re.compile(r"(?<!\w)(?:MM|Mmes?|Mlles?|Mgr|Me|Drs?|Pr|Profs?|Ft|Ste?|Col|Gén)\.\s+\Z")
# Max is also a name, and art a word: abbreviations precede a figure, or the letter of an article of law.
_FRENCH_ABBREVIATION = re.compile(r"(?<!\w)(?:[Mm]ax|[Mm]in|[Ee]nv|[Tt]él|[Aa]rt)\.\s+\Z")
_WORD = re.compile(r"[^\W\d_](?!\.)")
_BEFORE_A_FIGURE = re.compile(
    r"(?<!\w)(?:[Aa]pp?rox|[Ee]qs?|[Ff]igs|[Vv]ol|[Cc]hap|[Tt]el(?:éf)?|[Aa]pt|[Rr]éf"
    r"|ene|feb|janv|févr|avr|juil|sept|oct|nov|déc)\.\s+\Z"
)
# Where a space is missing behind a full stop.
_LAST_WORD = re.compile(r"(?:\A|[\s\"'“‘«(])[^\W\d_A-Z]{2,}[.]\Z")
_NEW_WORD = re.compile(r"[A-ZÀ-Þ][a-zà-ÿ]*['’]?[a-zà-ÿ]*,? [^\W_]")
_JAPANESE_QUOTE = re.compile("[」』]\\Z")


class Document(NamedTuple):
    """A text split into sentences and gaps.

    Attributes:
        language: Canonical code of the text's language.
        sentences: Each has at least one letter, and no white space, emoji or bullet around it; empty for a
            blank text.
        gaps: The text before, between and after the sentences: one more than sentences.
    """

    language: str
    sentences: tuple[str, ...]
    gaps: tuple[str, ...]

    @classmethod
    def split(cls, text: str, language: str, splitting: Splitting = "sentences") -> Self:
        """Splits a text, in time linear in its length.

        Args:
            text: Any text.
            language: Code of its language, in any form.
            splitting: Where its sentences end. A line break inside a sentence is part of the sentence.
        """
        language = canonical_code(language)
        text, tags = without_tags(text)
        spans = _sentence_spans(text, language, splitting)
        if tags:
            return cls(language, *distributed(text, tags, spans))
        sentences: list[str] = []
        gaps: list[str] = []
        last = 0
        for start, end in spans:
            gaps.append(text[last:start])
            sentences.append(text[start:end])
            last = end
        return cls(language, tuple(sentences), (*gaps, text[last:]))

    def keeping(self, kept: Sequence[bool]) -> Self:
        """Returns the same text with some of its sentences moved into the gaps.

        Args:
            kept: For each sentence, whether it remains a sentence.
        """
        sentences: list[str] = []
        gaps = [self.gaps[0]]
        for sentence, gap, stays in zip(self.sentences, self.gaps[1:], kept, strict=True):
            if stays:
                sentences.append(sentence)
                gaps.append(gap)
            else:
                gaps[-1] += sentence + gap
        return self._replace(sentences=tuple(sentences), gaps=tuple(gaps))

    def dividing(self, parts: Sequence[Sequence[str]]) -> Self:
        """Returns the same text with each of its sentences in parts.

        Args:
            parts: The parts of each sentence, which joined are the sentence; each but the last may end with
                white space.
        """
        sentences: list[str] = []
        gaps = [self.gaps[0]]
        for divided, gap in zip(parts, self.gaps[1:], strict=True):
            for part in divided:
                sentences.append(part.rstrip())
                gaps.append(part[len(sentences[-1]) :])
            gaps[-1] += gap
        return self._replace(sentences=tuple(sentences), gaps=tuple(gaps))

    def pieces(self) -> Iterator[tuple[str, str]]:
        """Yields each sentence with the gap behind it, the first also with the gap before it; and alone.

        Joined, the former are the text. A text without sentences is one piece.
        """
        before, *gaps = self.gaps
        for sentence, gap in zip(self.sentences or ("",), gaps or ("",), strict=True):
            yield before + sentence + gap, sentence
            before = ""

    def rebuild(self, translations: Sequence[str], *, target_language: str | None = None) -> str:
        """Returns the text with a translation in the place of each sentence.

        With the document's own sentences, the result is the original text.

        Args:
            translations: One for each sentence, in order.
            target_language: Language of the translations. If it puts spaces between sentences and the
                document's language does not, spaces are added.

        Raises:
            ValueError: If there are not as many translations as sentences.
        """
        needs_spaces = target_language is not None and gains_spaces(self.language, target_language)
        gaps = self._spaced_gaps() if needs_spaces else self.gaps
        pairs = zip(translations, gaps[1:], strict=True)
        return gaps[0] + "".join([translation + gap for translation, gap in pairs])

    def _spaced_gaps(self) -> tuple[str, ...]:
        last = len(self.gaps) - 1
        return tuple(
            _spaced(gap, is_first=place == 0, is_last=place == last) for place, gap in enumerate(self.gaps)
        )


def _sentence_spans(text: str, language: str, splitting: Splitting) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    start = 0
    for end in _ends(text, language, splitting):
        sentence = _trimmed(text, start, end)
        if sentence is not None:
            spans.append(sentence)
        start = end
    return spans


def _ends(text: str, language: str, splitting: Splitting) -> list[int]:
    """Returns where sentences end, the last at the end of the text; a part may have no letter."""
    if splitting == "none":
        return [len(text)]
    if splitting == "sentences":
        lines = _LINE.finditer(text)
        return [line.start() + end for line in lines for end in sentence_ends(line[0], language)]
    blank_lines = _BLANK_LINE.finditer(text) if splitting == "paragraphs" else ()
    starts = [0, *(match.end() for match in blank_lines)]
    paragraphs = zip(starts, (*starts[1:], len(text)), strict=True)
    return [
        start + each
        for start, end in paragraphs
        for each in sentence_ends(_BREAK.sub(" ", text[start:end]), language)
    ]


def _trimmed(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Returns a span without what surrounds its words; None if it has no letter."""
    if _PLAIN_FIRST.match(text, start, end) and _PLAIN_LAST.match(text, end - 1, end):
        return start, end
    first, last = start, end
    start += _length(_LEADING, text[start:end])
    part = text[start:end]
    end -= _length(_TRAILING, part[::-1])
    if _BRACKETED.fullmatch(text, start, end):
        return _trimmed(text, start + 1, end - 1)
    if not any(map(str.isalpha, text[start:end])):
        return None
    if _DIRECTION.search(text, start, end):
        # The network reads no such mark, so the other mark of its pair must not stay alone.
        before, behind = _DIRECTION.search(text, first, start), _LAST_DIRECTION.match(text, end, last)
        return before.start() if before else start, behind.end() if behind else end
    return start, end


def _spaced(gap: str, *, is_first: bool, is_last: bool) -> str:
    """Returns a gap with narrow brackets, and with spaces where it meets sentences or holds text itself."""
    gap = gap.translate(_NARROW)
    if not any(map(str.isalpha, gap)):
        if is_first or is_last or any(map(str.isspace, gap)):
            return gap
        return f" {gap}" if gap.endswith(("(", "[")) else f"{gap} "
    before = "" if is_first or gap[0].isspace() else " "
    behind = "" if is_last or gap[-1].isspace() else " "
    return before + gap + behind


def _length(edge: re.Pattern[str], part: str) -> int:
    match = edge.match(part)
    return 0 if match is None else match.end()


def sentence_ends(line: str, language: str) -> list[int]:
    """Returns the positions in a line where sentences end, the end of the line included.

    White space between two sentences belongs to the first. The time is linear in the length.

    Args:
        line: Any text without line breaks.
        language: Canonical code; an unknown language is split by English rules.
    """
    readable = line if line.isascii() else _SURROGATE.sub("\ufffd", line)
    ends = [end for end in _candidates(readable, language) if not _continues(readable, end, language)]
    if not line.isascii() or "|" in line:
        ends = sorted({*ends, *(found.end() for found in _SEPARATOR.finditer(readable))})
    if len(ends) > 1 and _LONG_STRING.search(line):
        return [*_outside_kept_strings(ends[:-1], readable), ends[-1]]
    return ends


def _outside_kept_strings(places: Sequence[int], text: str) -> list[int]:
    spans = kept_spans(text)
    starts = [start for start, _ in spans]
    # The last string that begins before a place, if there is one.
    strings = (spans[found - 1] if (found := bisect_left(starts, place)) else (0, 0) for place in places)
    return [place for place, (_, end) in zip(places, strings, strict=True) if end <= place]


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


def _candidates(line: str, language: str) -> list[int]:
    """Returns the splitter's ends, from windows that start at a sentence if possible."""
    found: list[int] = []
    start = 0
    while start + _WINDOW < len(line):
        ends = _window_ends(line[start : start + _WINDOW], language)
        found += (start + end for end in ends[:-1])
        last_sentence = [0, *ends][-2]
        start += last_sentence if last_sentence >= _SHORTEST_STEP else _WINDOW
    return found + [start + end for end in _window_ends(line[start:], language)]


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
    tail, head = line[max(0, end - _TAIL) : end], line[end : end + _TAIL]
    if not head:
        return False
    if tail[-1:].isspace():
        return _is_abbreviated(tail, head, language)
    return _is_attached(tail, head, language)


def _is_abbreviated(tail: str, head: str, language: str) -> bool:
    """Returns whether an abbreviation ends there, as in M. Dupont; the splitter knows English ones."""
    return bool(
        (language != "en" and _INITIAL.search(tail))
        or (language in _ORDINAL_LANGUAGES and _ORDINAL.search(tail))
        or (head[0].islower() and _ABBREVIATED_WORDS.search(tail))
        or (head[0].isdigit() and _BEFORE_A_FIGURE.search(tail))
        or (language == "fr" and _FRENCH_TITLE.search(tail))
        or (language == "fr" and _FRENCH_ABBREVIATION.search(tail) and not _WORD.match(head))
    )


def _is_attached(tail: str, head: str, language: str) -> bool:
    """Returns whether the text continues: file.Txt, J.-C., ２.５, x.org/?Q=1, 「はい。」と."""
    if tail.endswith("."):
        return _LATIN_OR_DIGIT.match(head) is not None and not _lacks_space(tail, head)
    if tail.endswith(("!", "?")):
        word = tail.split()[-1]
        return "/" in word or "@" in word
    return language == "ja" and _JAPANESE_QUOTE.search(tail) is not None and head.startswith(("と", "って"))


def _lacks_space(tail: str, head: str) -> bool:
    """Returns whether a new sentence follows a full stop, as in It works.It does, and no file's name."""
    if not (_LAST_WORD.search(tail) and _NEW_WORD.match(head)):
        return False
    name = tail.split()[-1] + head.split()[0]
    return without_kept_strings(name) == name
