"""③ ⑦ Strings that a translation repeats letter for letter: placeholders, code, addresses, figures.

The network reads a number of three digits in place of a placeholder, because networks copy numbers, and the
translation gets the string back in place of the number. If the network has lost the number, the string is
inserted where it stood in proportion; so each is in the translation exactly as often as in the source.

Figures (telephone numbers, dates, numbers with a unit) are read as they are. A figure that the network spelt
otherwise (`3,5 kg` for `3.5 kg`) becomes that of the source.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from model.text.tags import KEPT_TAG

# Addresses with Latin letters beyond ASCII are not matched, as only their ASCII part would be.
_END = r"(?![À-ɏ\u0300-\u036f])"
_WEB = (
    r"(?<![a-z0-9])(?:[a-z][a-z0-9+.-]{0,30}://|www\.)(?=[a-z0-9\[])[a-z0-9._~:/?#\[\]@!$&'()*+,;=%-]++"
    + _END
)
_MAIL = r"(?<![a-z0-9._%+-])[a-z0-9._%+-]{1,64}@[a-z0-9-]++(?:\.[a-z0-9-]++)++" + _END
_CLOSING = ".,;:!?'"
_BRACKETS = {")": "(", "]": "["}
_FILE_SUFFIX = (
    r"(?:md|txt|pdf|csv|json|xml|html?|css|js|ts|py|sh|ya?ml|toml|docx?|xlsx?|pptx?|png|jpe?g|gif|svg|zip|exe)"
    r"\b"
)
_PLACEHOLDERS = (
    f"(?P<web>{_WEB})",
    _MAIL,
    r"`[^`\n]{1,200}`",
    r"\{\{[^{}\n]{1,100}\}\}|[$#]\{[^{}\n]{1,100}\}",  # {{ x }}, ${x}
    r"\{[^{}\n]{0,100}(?:\{[^{}\n]{0,100}\}[^{}\n]{0,100}){0,8}\}",  # {name}, {n, plural, one {…} other {…}}
    r"%(?:\d{1,2}\$|\([\w.]{1,60}\))?[-+#0]?\d{0,3}(?:\.\d{1,2})?(?:l{0,2}[dux]|[sfegcb@]|i(?!\w))(?![a-z])",
    r"</?[a-z][a-z0-9:-]{0,30}(?:\s[^<>\n]{0,300})?/?>",
    r"&(?:[a-z]{2,31}\d?|#\d{1,7}|#x[0-9a-f]{1,6});",
    r"(?<!\w)\$[a-z_]\w{0,60}|(?<!\w):{1,2}[a-z_][\w+-]{0,60}:{1,2}(?!\w)",  # $HOME, :smile:, ::name::
    rf"(?<![\w.-])(?:\w{{1,60}}[.-]){{0,4}}\w{{1,60}}\.{_FILE_SUFFIX}|(?<!\w)[a-z0-9]{{1,40}}(?:_[a-z0-9]{{1,40}}){{1,8}}(?!\w)",
    r"(?-i:\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b)",  # IBAN
    r"[\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
    r"[\u200d\ufe0e\ufe0f\U0001f000-\U0001faff\U000e0020-\U000e007f]*",
    r"[0-9#*]\ufe0f?\u20e3",
)
_UNIT = r"(?:km/h|mph|kWh|[kcmµn]?m[²³]?|[kmµ]?g|[kMGT]?B|[km]?[VWA]|[kMG]?Hz|ml|°[CF]|px|%|[€$£¥])"
_FIGURES = (
    r"(?<![\w.,])\+?\(?\d{1,4}\)?(?:[ ./-]\(?\d{1,6}\)?){2,6}(?![\w.,]*\d)",  # telephone, ISBN, dates
    rf"(?<![\w.,])-?\d+(?:[.,]\d+)*(?:\s|(?=[%°€$£]|[a-zµ]))(?-i:{_UNIT})(?!\w)",
    r"(?<!\w)[€$£¥]\d+(?:[.,]\d+)*(?!\w)",
)
_KEPT = re.compile(f"{KEPT_TAG}|(?P<figure>{'|'.join(_FIGURES)})|{'|'.join(_PLACEHOLDERS)}", re.IGNORECASE)
# A class of characters is searched six times as fast as alternatives.
_HINT = re.compile(r"[{%`<&@$_:\d\u20e3\u2190-\u2bff\ud800-\uf8ff\U00010000-\U0010ffff]")
# Of a web address or the name of a file; where case is ignored, four letters beyond ASCII equal ASCII ones.
_DOT_HINT = re.compile(r"\.[A-Za-z\[\u0130\u0131\u017f\u212a]")
_NUMBER = re.compile(r"\d+")
_FEW = 683
UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_BOUNDARY = re.compile(f"\\s|$|(?={UNSPACED.pattern})")
_OPENING = "([{<«‹\"'“„‘-–—/"
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class KeptString:
    """A string that is not translated.

    Attributes:
        text: The string, or several that follow each other.
        number: The digits that stand for it; empty for a figure.
        place: Where it begins, as a fraction of the rest of the sentence.
        is_glued: Whether what precedes and what follows it has no space between.
    """

    text: str
    number: str
    place: float
    is_glued: tuple[bool, bool]


def with_numbers(
    text: str, keep: Sequence[str] = (), used: Collection[str] = ()
) -> tuple[str, tuple[KeptString, ...]]:
    """Returns a sentence with a number in place of each string to keep, and these strings.

    Args:
        text: A sentence.
        keep: Further strings to keep.
        used: Numbers that the sentence gets by other means.
    """
    if not (keep or _may_hold_strings(text)):
        return text, ()
    matches = list(_matches(text, keep))
    kept = [KeptString(match[0], "", 0, (False, False)) for match in matches if match["figure"]]
    used = {*used, *_NUMBER.findall(text), *("".join(_NUMBER.findall(string.text)) for string in kept)}
    numbers = (number for number in _numbers() if number not in used)
    parts, end = [], 0
    spans = ((match.start(), _end(text, match)) for match in matches if not match["figure"])
    for begin, stop in _joined(spans):
        before, behind = text[:begin][-1:], text[stop : stop + 1]
        is_apart = not before or before.isspace() or before in _OPENING, not behind.isalnum()
        string = text[begin:stop]
        place = begin / max(len(text) - len(string), 1)
        kept.append(KeptString(string, next(numbers), place, _glue(string, *is_apart)))
        parts += [text[end:begin], "" if is_apart[0] else " ", kept[-1].number, "" if is_apart[1] else " "]
        end = stop
    return "".join([*parts, text[end:]]), tuple(kept)


def _may_hold_strings(text: str) -> bool:
    """Returns whether a text may hold a string to keep; most texts do not."""
    return bool(_HINT.search(text) or _DOT_HINT.search(text))


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
    if is_between_words and string.startswith("</"):
        return True, False
    if is_between_words and string.startswith("<"):
        return False, True
    return not is_apart_before, not is_apart_behind


def without_kept_strings(text: str) -> str:
    """Returns a text without placeholders and the like, which say nothing of its language."""
    return _KEPT.sub(" ", text) if _may_hold_strings(text) else text


def with_kept_strings(translation: str, kept: Sequence[KeptString]) -> str:
    """Returns a translation in which each string stands once, in place of its number.

    Args:
        translation: Text that the network produced.
        kept: What `with_numbers` returned.
    """
    figures = Counter(string.text for string in kept if not string.number)
    for figure in figures:
        translation = _with_figure(translation, figure, figures)
    for string in kept:
        if string.number:
            translation = _in_place_of_number(translation, string)
    return translation


def _in_place_of_number(translation: str, string: KeptString) -> str:
    before, after = (r"\s?" if glued else "" for glued in string.is_glued)
    number = rf"(?<!\d){string.number}(?!\d)"
    translation, found = re.subn(f"{before}{number}{after}", lambda _: string.text, translation, count=1)
    return re.sub(rf"\s?{number}", "", translation) if found else _inserted(translation, string)


def _matches(text: str, keep: Sequence[str]) -> Iterator[re.Match[str]]:
    pattern = _KEPT
    if keep:
        listed = "|".join(map(_whole, sorted(keep, key=len, reverse=True)))
        pattern = re.compile(f"{listed}|{_KEPT.pattern}", re.IGNORECASE)
    return (match for match in pattern.finditer(text) if len(match[0]) <= _LONGEST)


def _whole(string: str) -> str:
    """Returns a pattern for a string, as whole words where its language has spaces between words."""
    is_word = [edge.isalnum() and UNSPACED.match(edge) is None for edge in (string[:1], string[-1:])]
    return r"(?<!\w)" * is_word[0] + re.escape(string) + r"(?!\w)" * is_word[1]


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


def _with_figure(translation: str, figure: str, figures: Mapping[str, int]) -> str:
    """Returns a translation in which parts with the digits of a figure, spelt otherwise, are that figure.

    Args:
        translation: Text that the network produced.
        figure: A figure of the source.
        figures: How often each figure stands in the source. None of them is another one spelt otherwise.
    """
    digits = r"[\s.,/()-]{0,2}".join(re.findall(r"\d", figure))
    unit = re.sub(r"[\d\s.,/()+-]", "", figure)
    spelt_unit = re.escape(unit) or "(?!)"
    spelt = rf"(?<![\d.,])(?:{spelt_unit}\s?)?[+-]?\(?{digits}\)?(?:\s?{spelt_unit})?(?![.,]?\d)"
    found = [match for match in re.finditer(spelt, translation) if match[0] not in figures]
    # The same digits without the unit may be another number of the sentence.
    bare = [match for match in found if unit not in match[0]]
    missing = figures[figure] - translation.count(figure) - (len(found) - len(bare))
    for match in reversed(found):
        if unit in match[0] or match in bare[: max(missing, 0)]:
            translation = translation[: match.start()] + figure + translation[match.end() :]
    return translation


def _inserted(translation: str, string: KeptString) -> str:
    """Returns a translation with a string at the boundary of words that is nearest to its place."""
    wanted = round(string.place * len(translation))
    boundaries = (match.start() for match in _BOUNDARY.finditer(translation))
    place = min((0, *boundaries), key=lambda each: abs(each - wanted))
    head, tail = translation[:place], translation[place:].lstrip()
    is_apart = UNSPACED.search(translation) is None
    return (" " if is_apart else "").join(part for part in (head.rstrip(), string.text, tail) if part)
