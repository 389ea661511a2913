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

from model.text.languages import UNSPACED_LETTER, UNSPACED_LETTERS, words_in_other_scripts
from model.text.tags import KEPT_TAG

# A letter, digit or underscore of a script with spaces between words; no such before, none behind; a space.
# Ignoring case, Python would fold each character of a class with large ranges: that took most of the import.
_L = rf"(?-i:[^\W{UNSPACED_LETTERS}])"
_B, _E = f"(?<!{_L})", f"(?!{_L})"
_S = "[ \u00a0\u2009\u202f]"
_NAME = rf"(?-i:{UNSPACED_LETTER.pattern}){{1,6}}(?![\w@])"
_PART = rf"(?:{_L}|[.+@~-]){{1,100}}"  # of a path
_WEB = (
    rf"(?:(?-i:[^\s<>\"`{{}}|\\^«»‹›“”„‘’—…\u2190-\u2bff\u3000-\u303f\ue000-\uf8ff\uff00-\uffef{UNSPACED_LETTERS}"
    r"\U0001f000-\U0010ffff])|\{[\w.]{1,60}\}|(?<=[/=])(?-i:[\u3400-\u9fff]){1,30})++"
)
_DOMAINS = (
    "com|org|net|edu|gov|int|info|biz|io|ai|app|dev|co|me|tv|eu|uk|us|ca|au|nz|de|at|ch|fr|be|lu|es|pt|it|nl"
    "|pl|cz|se|no|dk|fi|ie|ru|ua|tr|cn|hk|tw|jp|kr|in|sg|br|mx|ar|cl|za"
)
# Not a domain, but a full stop without a space behind it.
_SENTENCE_END = rf"[a-z]{{1,62}}\.(?:in|at|me|it|be|us|no|au|se|ca){_S}(?-i:[a-z])"
_INSERTION = r"[^\n]{1,200}[\w,.]--(?!\w)|[^\n]{1,200}\s--\s"  # between two dashes, as in Spanish --or so--
_FILES = (
    "txt|md|rst|pdf|csv|tsv|jsonl?|xml|html?|css|jsx?|tsx?|vue|py|ipynb|rb|rs|go|java|kt|cs|php|cpp|hpp|cc|sh"
    "|bat|sql|ya?ml|toml|ini|cfg|conf|env|log|lock|docx?|xlsx?|pptx?|od[tps]|rtf|epub|tex|srt|vtt|po|xliff?"
    "|png|jpe?g|gif|svg|webp|bmp|tiff?|ico|heic|psd|mp[34]|wav|ogg|flac|m4a|avi|mkv|mov|webm"
    "|zip|tar|t?gz|bz2|7z|rar|exe|msi|dll|so|dmg|pem|crt|woff2?|[ot]tf|iso|apk|deb|rpm|jar|whl|bin|bak|tmp|db"
)
_AMOUNT = rf"\d+(?:[.,'’]\d+){{0,12}}(?:{_S}\d{{3}}(?!\d)){{0,6}}(?:[.,]\d+)?"
_CURRENCY = (
    r"(?:(?:R|US|CA?|AU?|NZ|HK|S|MX)?[$€£¥￥￡₹₽₩₺₫₴₪฿₿¢]|(?-i:USD|EUR|GBP|CHF|JPY|CNY|RMB|INR|CAD|AUD|NZD|HKD|SGD"
    "|BRL|MXN|SEK|NOK|DKK|PLN|CZK|HUF|RON|RUB|UAH|TRY|KRW|ZAR|BTC|zł|Kč|kr))"
)
_UNIT = (
    "(?-i:km/h|m/s|mph|kn|[kdcmµn]?m[²³23]?|ft|yd|[kmµn]?g|lbs?|oz|[mcdh]?l|[mcdh]L|gal|[nmµ]s|min|[kMG]?Hz"
    "|[kMG]?Wh|m?Ah|[kMGT]W|[km]V|mA|Ω|[hkM]Pa|psi|[kM]J|k?cal|[kMGTP]i?[Bb](?:/s|ps)?|px|pt|dpi|fps|rpm|dB|ppm"
    "|°[CFK]?|%|‰"
    # Letters that are also articles, initials and labels: Chapter 5 A New Hope, No. 5 V. Smith.
    rf"|(?:[VW]|[ALt](?:(?<=\d.)|(?!{_S}\w)))(?!\.{_S}?\w))(?!['’-])"
)
_KEYS = "ctrl|control|strg|alt|altgr|shift|umschalt|maj|mayús|cmd|command|opt|option|win|windows|meta|fn"
_BRACED = r"\{[^{}\n]{0,100}+\}"
for _ in range(2):  # an ICU plural holds messages, which hold placeholders
    _BRACED = rf"\{{[^{{}}\n]{{0,100}}+(?:{_BRACED}[^{{}}\n]{{0,100}}+){{0,8}}+\}}"
# In LaTeX. Two prices have words between them, a space before the second sign, a digit behind it, or no
# sign of maths.
MATHS = (
    r"(?:(?<![\w$\\])\$"
    r"(?=[^$\n]{0,200}\\|(?![^$\n]{0,200}[a-z]{2}[ ][a-z]{2})[^$\n]{0,200}[\^_=+]|[a-z]{1,3}\$)"
    r"[^\s$](?:[^$\n]{0,200}[^\s$\\])?\$(?![\w$])"
    r"|\$\$(?=[^$\n]{0,200}[\\^_=+])[^$\n]{1,200}\$\$)"
)
_QUOTED = r"\"[^\"\n]{0,60}\"|'[^'\n]{0,60}'"
_ARGUMENT = rf"(?:-?{_L}{{1,60}}(?:\.{_L}{{1,60}}){{0,4}}|{_QUOTED})"
# None, numbers, a string, or several: one word may be prose.
_ARGUMENTS = rf"(?:[\d.,% ]{{0,40}}|{_QUOTED}|{_ARGUMENT}(?:,[ ]?{_ARGUMENT}){{1,8}})"
_SUFFIX = rf"(?:(?:{_UNIT}|[a-z]{{1,2}}){_E})?"  # the unit or plural of what a placeholder stands for
_CONVERSION = rf"[-+#0]?\d{{0,3}}(?:\.\d{{1,2}})?(?:(?:l{{0,2}}|hh?|z)[dux]|[sfegcb@]|i(?!{_L}))"

_FROM_ANY_PLACE = (
    KEPT_TAG,
    "[\ue000-\uf8ff]+",  # of private use, such as Wingdings and fonts of icons
    r"[©®™‼⁉ℹ〰〽㊗㊙\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
    r"[\u200d\ufe0e\ufe0f\u2600-\u27bf\U0001f000-\U0001faff\U000e0020-\U000e007f]*",  # emoji, joined
    r"[0-9#*]\ufe0f?\u20e3",
    r"`{1,3}[^`\n]{1,200}(?!(?<=[\s(])`\w)`{1,3}",  # not between two opening quotes: `so' and `so'
    r"<(?P<code>code|kbd|samp|tt|var)>[^<\n]{0,200}</(?P=code)>",
    MATHS,
    rf"[$#@%]?{_BRACED}{_SUFFIX}|\[\[[^\[\]\n]{{1,100}}\]\]|\$\w{{0,30}}\([^()\n]{{1,100}}\)|<%[^<>\n]{{1,100}}%>",
    # As in printf.
    rf"%(?:\d{{1,2}}\$|\([\w.]{{1,60}}\)){_CONVERSION}{_SUFFIX}|(?<!\d)(?<!\d{_S})%{_CONVERSION}{_SUFFIX}",
    rf"%{_CONVERSION}(?![a-z])|%%|%[a-z]{_L}{{1,60}}%",
    r"<(?:https?://|mailto:)[^<>\s]{1,300}>",
    r"</?(?:[a-z][a-z0-9:-]{0,30}(?:\s[^<>\n]{0,300})?|\d[a-z0-9:-]{0,30})\s?/?>|<!--[^<>\n]{0,300}-->",
    r"&(?:[a-z]{2,31}\d{0,2}|#\d{1,7}|#x[0-9a-f]{1,6});",
    r"\\\\(?:[\w.()$~+-]{1,100}\\){0,20}[\w.()$~+-]{1,100}(?<!\.)|\\[nrt]",  # \\host\file, \n
)
_FROM_WORD_START = (
    # A formula or measure with a raised or lowered number, which is an element; but not It with a note.
    rf"(?-i:\d{{1,4}}|[A-Z]|[A-Z][a-z](?={KEPT_TAG}{_L})|[A-Z]{{2,3}}|[kcdm]?m|[a-z])(?:{KEPT_TAG}{_L}{{0,3}})+{_E}",
    # Addresses of devices and sites, names of people and subjects, files, names in code.
    rf"(?=[0-9:]{{0,30}}[a-f]|[0-9a-f:]{{0,30}}::)[0-9a-f]{{1,4}}(?::{{1,2}}[0-9a-f]{{1,4}}){{2,7}}{_E}",
    rf"(?P<web>(?:[a-z][a-z0-9+.-]{{0,30}}://|mailto:|tel:|www\.)(?=[\w\[{{+]){_WEB}"
    rf"|(?<![.@-])(?!{_SENTENCE_END})(?-i:[A-Za-z0-9][a-z0-9-]{{0,62}}(?:\.[a-z0-9-]{{1,63}}){{0,4}}\.(?:{_DOMAINS})){_E}"
    rf"(?:(?=[/:?#]){_WEB})?)",
    rf"(?<![.%+-])(?:o')?(?:{_L}|[.%+-]){{1,64}}@(?:{_L}|-){{1,63}}+(?:\.(?:{_L}|-){{1,63}}+){{1,9}}+",
    rf"(?<!@)@(?:{_L}{{1,60}}(?:[.-]{_L}{{1,60}}){{0,4}}|{_NAME})",
    rf"(?<![#&])#(?:{_L}{{1,100}}|{_NAME}#?)",
    rf"(?<![./])(?:\.{{1,2}}/|~/|/(?=[^\s/]{{1,100}}/))(?:{_PART}/){{0,20}}{_PART}(?<!\.)/?",
    rf"(?<![./-])(?:{_PART}/){{0,20}}(?:{_L}{{1,60}}[.-]){{0,6}}{_L}{{1,60}}\.(?:{_FILES}){_E}(?![/-])",
    rf"(?<![./])\.(?:[a-z]{{1,20}}(?:rc|ignore|profile|config)|env|ssh|htaccess){_E}",
    r"[a-z]:\\(?:[\w.()$~+-]{1,100}(?: [\w.()$~+-]{1,100}){0,3}\\){0,20}(?:[\w.()$~+-]{1,100}(?<!\.))?",
    rf"\$[a-z_]{_L}{{0,60}}(?:/{_PART}){{0,20}}",
    rf"(?<!:):{{1,2}}[a-z_+-](?:{_L}|[+-]){{0,60}}:{{1,2}}{_E}",  # :smile:, ::name::
    rf"_{{0,2}}[a-z0-9]{{1,40}}(?:_[a-z0-9]{{1,40}}){{1,8}}_{{0,2}}{_E}",
    rf"(?<![^\s(\[{{<\"'，。：；、（「《{UNSPACED_LETTERS}]):"  # :name, but not 来源:Getty
    rf"(?-i:[a-z_]|(?<![{UNSPACED_LETTERS}]:)[A-Z]){_L}{{1,60}}(?![\w:])",
    rf"{_L}{{1,60}}(?:(?:::{_L}{{1,60}}){{1,6}}|(?:\.{_L}{{1,60}}){{0,6}}\({_ARGUMENTS}\))",
    rf"{_L}{{0,40}}[^\W\d_]\$(?:{_L}|\$){{0,40}}[^\W\d_]{_L}{{0,40}}",  # pa$$w0rd, but not US$70
    rf"(?-i:[A-Z](?:\+\+|#)){_E}|{_L}{{1,2}}(?:\+{_L}{{1,2}}){{1,4}}{_E}",  # C++, a+b
    rf"(?:{_KEYS})(?:\+{_L}{{1,12}}){{1,4}}{_E}",
    rf"{_L}{{1,20}}(?:\^(?:-?{_L}{{1,20}}|\{{[^{{}}\n]{{1,20}}\}})){{1,4}}\^?",
    rf"(?<![:;()])[:;]-?[()D](?![\w(])|##{_L}{{1,60}}##",
    rf"(?:(?<!-)--(?!{_INSERTION})[a-z]|{_L}(?=(?:{_L}|[.-]){{0,60}}=))(?:{_L}|[.-]){{0,60}}(?:=(?:{_L}|[.,/-]){{0,100}}{_L})?",
    rf"{_L}{{0,20}}[²³¹\u2070-\u209c]{_L}{{0,20}}",
)
_WITH_DIGITS = (
    # IBAN, ISBN, UUID, points in time, versions, amounts of money, dates, telephone numbers, measures.
    rf"(?-i:[A-Z]{{2}}\d{{2}}(?: ?[A-Z0-9]{{4}}){{3,7}}(?: ?[A-Z0-9]{{1,3}})?){_E}",
    rf"IS[BS]N(?:-1[03])?:?{_S}(?:\d[ -]?){{7,12}}[\dX]{_E}",
    rf"[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}{_E}|(?:0x|U\+)[0-9a-f]+{_E}",
    rf"\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?{_E}",
    rf"v?\d+(?:\.\d+){{1,3}}-?(?:alpha|beta|rc|dev|pre|[ab](?=\.?\d))\.?\d*{_E}|(?:\d{{1,3}}\.){{3}}\d{{1,3}}[:/]\d+{_E}",
    rf"(?<![.,])(?:-?{_CURRENCY}{_S}?{_AMOUNT}(?:[-–]{_CURRENCY}?{_AMOUNT})?(?:{_S}?(?:bn|[km]){_E})?)",
    rf"(?<![.,])-?{_AMOUNT}(?:[-–]{_AMOUNT})?(?:[km]|bn)?{_S}?{_CURRENCY}{_E}",
    r"\d{1,2}['′]\d{1,2}[\"″]",  # feet and inches
    rf"\d{{1,3}}(?:[.,]\d{{1,9}})?°(?:{_S}?\d{{1,2}}['′](?:{_S}?\d{{1,2}}(?:[.,]\d{{1,4}})?(?:[\"″]|''))?)?{_S}?(?-i:[NSEWO]){_E}",
    rf"(?<![.,])\+?\(?\d{{1,4}}\)?(?:[ \u00a0./-]?(?:(?<=\D)|(?=\())\(?\d{{1,6}}\)?){{2,6}}{_E}(?![.,]?\d)",
    rf"(?<![.,:/])[-+±]?{_AMOUNT}(?:[-–/]{_AMOUNT})?(?:{_S}|(?=[%°‰a-zµΩ])){_UNIT}{_E}",
    rf"(?<![.,:/])\d{{1,3}}:\d{_E}(?![.,:/]\d)",  # a ratio; a time of day has two digits of minutes
    rf"(?<![.,])\d+(?:[.,:/'’_–-]\d+|{_S}\d{{3}}(?!\d)){{2,12}}{_E}",
    rf"(?<![.,:/'’-])(?:[+±~≈≤≥]{_S}?\d+(?![.,]?\d)|[§№]{_S}?\d+(?:\.\d+){{0,4}}(?![.,]?\d)|\d+(?:\.\d+)?(?:e[+-]?|\^-?)\d+"
    rf"|(?<!\d{_S})0\d+|\d{{5,}}|\[\d{{1,3}}\]){_E}",
    # Names with digits, but no ordinals, decades and times of day: A4, COVID-19, v10.2, 4K, 2x, H₂O.
    rf"(?!\d{{1,2}}h\d\d{_E})(?-i:[A-Z]{{1,20}}-\d|[A-Za-z]{{1,20}}\d|\d+(?:[A-DF-RT-Z](?![A-Z])|[a-z]{{1,8}}\d|x{_E}))"
    rf"{_L}{{0,100}}(?:[.-]\d+|:[A-Za-z0-9]{{1,100}}|-(?-i:[A-Z]{{1,9}}(?![a-z]))){{0,8}}{_E}",
)
_KEPT = re.compile(
    f"{'|'.join(_FROM_ANY_PLACE)}"
    rf"|{_B}(?:{'|'.join(_FROM_WORD_START)}|(?=\D{{0,25}}\d)(?:{'|'.join(_WITH_DIGITS)}))",
    re.IGNORECASE,
)
# Most sentences hold none of these. A class of characters is searched six times as fast as alternatives.
_HINT = re.compile(
    r"[{}\[%`<&@$_:;#^\\=+/\d©®™‼⁉ℹ№〰〽㊗㊙²³¹\u2070-\u209c\u20e3\u2190-\u2bff\ud800-\uf8ff\U00010000-\U0010ffff]"
)
# In names of sites, files, options and calls. Ignoring case, four letters beyond ASCII equal ASCII ones.
_PAIR_HINT = re.compile(r"\.[A-Za-z\[\u0130\u0131\u017f\u212a]|--|\w\([^()]*[)\"',]")
_CLOSING = ".,;:!?'"
_BRACKETS = {")": "(", "]": "["}
_LETTER = re.compile(_L)
_ANY_LETTER = re.compile(r"\w")  # which would belong to the web address before it
_NUMBER = re.compile(r"\d+")
_FEW = 683
_BOUNDARY = re.compile(f"\\s|$|(?={UNSPACED_LETTER.pattern})")
_OPENING = "([{<«‹\"'“„‘-–—/（《「『：，、；。！？"  # full-width marks have no space behind them in any case
_LONGEST = 400


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
    if not (keep or other_scripts or _may_hold_strings(text)):
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


def _may_hold_strings(text: str) -> bool:
    """Returns whether a text may hold a string to keep; most texts do not."""
    return bool(_HINT.search(text) or _PAIR_HINT.search(text))


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
    if not _may_hold_strings(text):
        return []
    return list(_spans(text))


def without_kept_strings(text: str) -> str:
    """Returns a text without placeholders and the like, which say nothing of its language."""
    return _KEPT.sub(" ", text) if _may_hold_strings(text) else text


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
        if not string.is_glued[0] and _LETTER.match(head[-1:]):
            head += " "
        letter = _ANY_LETTER if "://" in string.text else _LETTER
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
    patterns = [pattern for pattern in (listed, _KEPT, other_scripts) if pattern]
    found = [pattern.search(text) for pattern in patterns]
    while match := min(filter(None, found), key=re.Match.start, default=None):
        begin, stop = match.span()
        while place < len(terms) and terms[place][0] < position:
            place += 1
        start, end = terms[place] if place < len(terms) else (len(text), len(text))
        if start <= begin and match.re is not listed:
            position = end
        elif match.re is _KEPT and end == stop and _is_figure(text[begin:start]):
            position = end
            if figure := _KEPT.match(text, begin, start):
                yield figure.span()
        else:
            if match.re is other_scripts and start < stop:
                stop = begin + len(text[begin:start].rstrip())
            position = stop
            if stop - begin <= _LONGEST:
                yield begin, _end(text, match) if match.re is _KEPT else stop
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
    return _B * is_word[0] + f"(?:{'|'.join(map(re.escape, spellings))})" + _E * is_word[1]


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
