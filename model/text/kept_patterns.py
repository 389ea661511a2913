"""Patterns of the strings that a translation repeats letter for letter; without regard to case."""

import re
from typing import Final

from model.text.languages import UNSPACED_LETTER, UNSPACED_LETTERS
from model.text.tags import KEPT_TAG

# The parts of the patterns. Names of one letter are for those that stand in most of them.
# Ignoring case, Python would fold each character of a class with large ranges: that took most of the import.
_L = rf"(?-i:[^\W{UNSPACED_LETTERS}])"  # a letter, digit or underscore of a script with spaces between words
_B = f"(?<!{_L})"  # the beginning of a word
_E = f"(?!{_L})"  # the end of a word
_S = "[ \u00a0\u2009\u202f]"  # a space
LETTER: Final = re.compile(_L)
WORD_START: Final = _B
WORD_END: Final = _E
# A name of a person or subject in a script without spaces.
_NAME = rf"(?-i:{UNSPACED_LETTER.pattern}){{1,6}}(?![\w@])"
_PART = rf"(?:{_L}|[.+@~-]){{1,100}}"  # a folder or file of a path
# What may follow the beginning of a web address.
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
# A number with separators of thousands and decimals.
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
# Something in braces, such as a placeholder.
_BRACED = r"\{[^{}\n]{0,100}+\}"
for _ in range(2):  # an ICU plural holds messages, which hold placeholders
    _BRACED = rf"\{{[^{{}}\n]{{0,100}}+(?:{_BRACED}[^{{}}\n]{{0,100}}+){{0,8}}+\}}"
MATHS: Final = (
    r"(?:(?<![\w$\\])\$"
    r"(?=[^$\n]{0,200}\\|(?![^$\n]{0,200}[a-z]{2}[ ][a-z]{2})[^$\n]{0,200}[\^_=+]|[a-z]{1,3}\$)"
    r"[^\s$](?:[^$\n]{0,200}[^\s$\\])?\$(?![\w$])"
    r"|\$\$(?=[^$\n]{0,200}[\\^_=+])[^$\n]{1,200}\$\$)"
)
"""A formula in LaTeX, as a pattern.

Two prices have words between them, a space before the second sign, a digit behind it, or no sign of maths.
"""
_QUOTED = r"\"[^\"\n]{0,60}\"|'[^'\n]{0,60}'"
_ARGUMENT = rf"(?:-?{_L}{{1,60}}(?:\.{_L}{{1,60}}){{0,4}}|{_QUOTED})"
# Of a call: none, numbers, a string, or several, as one word may be prose.
_ARGUMENTS = rf"(?:[\d.,% ]{{0,40}}|{_QUOTED}|{_ARGUMENT}(?:,[ ]?{_ARGUMENT}){{1,8}})"
_SUFFIX = rf"(?:(?:{_UNIT}|[a-z]{{1,2}}){_E})?"  # the unit or plural of what a placeholder stands for
# What follows the % of printf.
_CONVERSION = rf"[-+#0]?\d{{0,3}}(?:\.\d{{1,2}})?(?:(?:l{{0,2}}|hh?|z)[dux]|[sfegcb@]|i(?!{_L}))"

_FROM_ANYWHERE = (
    KEPT_TAG,
    "[\ue000-\uf8ff]+",  # of private use, such as Wingdings and fonts of icons
    r"[©®™‼⁉ℹ〰〽㊗㊙\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
    r"[\u200d\ufe0e\ufe0f\u2600-\u27bf\U0001f000-\U0001faff\U000e0020-\U000e007f]*",  # emoji, joined
    r"[0-9#*]\ufe0f?\u20e3",  # keycaps
    # Code, in Markdown and in HTML.
    r"`{1,3}[^`\n]{1,200}(?!(?<=[\s(])`\w)`{1,3}",  # not between two opening quotes: `so' and `so'
    r"<(?P<code>code|kbd|samp|tt|var)>[^<\n]{0,200}</(?P=code)>",
    MATHS,
    # Placeholders: {name}, ${name}, [[name]], $(name), <%= name %>; those of printf; %name%.
    rf"[$#@%]?{_BRACED}{_SUFFIX}|\[\[[^\[\]\n]{{1,100}}\]\]|\$\w{{0,30}}\([^()\n]{{1,100}}\)|<%[^<>\n]{{1,100}}%>",
    rf"%(?:\d{{1,2}}\$|\([\w.]{{1,60}}\)){_CONVERSION}{_SUFFIX}|(?<!\d)(?<!\d{_S})%{_CONVERSION}{_SUFFIX}",
    rf"%{_CONVERSION}(?![a-z])|%%|%[a-z]{_L}{{1,60}}%",
    # Addresses in angle brackets, tags and comments of HTML, its entities.
    r"<(?:https?://|mailto:)[^<>\s]{1,300}>",
    r"</?(?:[a-z][a-z0-9:-]{0,30}(?:\s[^<>\n]{0,300})?|\d[a-z0-9:-]{0,30})\s?/?>|<!--[^<>\n]{0,300}-->",
    r"&(?:[a-z]{2,31}\d{0,2}|#\d{1,7}|#x[0-9a-f]{1,6});",
    r"\\\\(?:[\w.()$~+-]{1,100}\\){0,20}[\w.()$~+-]{1,100}(?<!\.)|\\[nrt]",  # \\host\file, \n
)
_FROM_WORD_START = (
    # A formula or measure with a raised or lowered number, which is an element; but not It with a note.
    rf"(?-i:\d{{1,4}}|[A-Z]|[A-Z][a-z](?={KEPT_TAG}{_L})|[A-Z]{{2,3}}|[kcdm]?m|[a-z])(?:{KEPT_TAG}{_L}{{0,3}})+{_E}",
    # Addresses: IPv6 and MAC, web, e-mail.
    rf"(?=[0-9:]{{0,30}}[a-f]|[0-9a-f:]{{0,30}}::)[0-9a-f]{{1,4}}(?::{{1,2}}[0-9a-f]{{1,4}}){{2,7}}{_E}",
    rf"(?P<web>(?:[a-z][a-z0-9+.-]{{0,30}}://|mailto:|tel:|www\.)(?=[\w\[{{+]){_WEB}"
    rf"|(?<![.@-])(?!{_SENTENCE_END})(?-i:[A-Za-z0-9][a-z0-9-]{{0,62}}(?:\.[a-z0-9-]{{1,63}}){{0,4}}\.(?:{_DOMAINS})){_E}"
    rf"(?:(?=[/:?#]){_WEB})?)",
    rf"(?<![.%+-])(?:o')?(?:{_L}|[.%+-]){{1,64}}@(?:{_L}|-){{1,63}}+(?:\.(?:{_L}|-){{1,63}}+){{1,9}}+",
    # @people and #subjects.
    rf"(?<!@)@(?:{_L}{{1,60}}(?:[.-]{_L}{{1,60}}){{0,4}}|{_NAME})",
    rf"(?<![#&])#(?:{_L}{{1,100}}|{_NAME}#?)",
    # Paths, files by their suffix, hidden files, paths of Windows, variables of the shell.
    rf"(?<![./])(?:\.{{1,2}}/|~/|/(?=[^\s/]{{1,100}}/))(?:{_PART}/){{0,20}}{_PART}(?<!\.)/?",
    rf"(?<![./-])(?:{_PART}/){{0,20}}(?:{_L}{{1,60}}[.-]){{0,6}}{_L}{{1,60}}\.(?:{_FILES}){_E}(?![/-])",
    rf"(?<![./])\.(?:[a-z]{{1,20}}(?:rc|ignore|profile|config)|env|ssh|htaccess){_E}",
    r"[a-z]:\\(?:[\w.()$~+-]{1,100}(?: [\w.()$~+-]{1,100}){0,3}\\){0,20}(?:[\w.()$~+-]{1,100}(?<!\.))?",
    rf"\$[a-z_]{_L}{{0,60}}(?:/{_PART}){{0,20}}",
    # Names in code.
    rf"(?<!:):{{1,2}}[a-z_+-](?:{_L}|[+-]){{0,60}}:{{1,2}}{_E}",  # :smile:, ::name::
    rf"_{{0,2}}[a-z0-9]{{1,40}}(?:_[a-z0-9]{{1,40}}){{1,8}}_{{0,2}}{_E}",  # snake_case
    rf"(?<![^\s(\[{{<\"'，。：；、（「《{UNSPACED_LETTERS}]):"  # :name, but not 来源:Getty
    rf"(?-i:[a-z_]|(?<![{UNSPACED_LETTERS}]:)[A-Z]){_L}{{1,60}}(?![\w:])",
    rf"{_L}{{1,60}}(?:(?:::{_L}{{1,60}}){{1,6}}|(?:\.{_L}{{1,60}}){{0,6}}\({_ARGUMENTS}\))",  # a::b, a.b(c)
    rf"{_L}{{0,40}}[^\W\d_]\$(?:{_L}|\$){{0,40}}[^\W\d_]{_L}{{0,40}}",  # pa$$w0rd, but not US$70
    rf"(?-i:[A-Z](?:\+\+|#)){_E}|{_L}{{1,2}}(?:\+{_L}{{1,2}}){{1,4}}{_E}",  # C++, a+b
    rf"(?:{_KEYS})(?:\+{_L}{{1,12}}){{1,4}}{_E}",  # Ctrl+C
    # Powers, smileys and ##names##, options of commands, letters with raised or lowered digits.
    rf"{_L}{{1,20}}(?:\^(?:-?{_L}{{1,20}}|\{{[^{{}}\n]{{1,20}}\}})){{1,4}}\^?",
    rf"(?<![:;()])[:;]-?[()D](?![\w(])|##{_L}{{1,60}}##",
    rf"(?:(?<!-)--(?!{_INSERTION})[a-z]|{_L}(?=(?:{_L}|[.-]){{0,60}}=))(?:{_L}|[.-]){{0,60}}(?:=(?:{_L}|[.,/-]){{0,100}}{_L})?",
    rf"{_L}{{0,20}}[²³¹\u2070-\u209c]{_L}{{0,20}}",
)
_WITH_DIGITS = (
    # IBAN, ISBN, UUID or hexadecimal number, point in time, version or IPv4 address with a port.
    rf"(?-i:[A-Z]{{2}}\d{{2}}(?: ?[A-Z0-9]{{4}}){{3,7}}(?: ?[A-Z0-9]{{1,3}})?){_E}",
    rf"IS[BS]N(?:-1[03])?:?{_S}(?:\d[ -]?){{7,12}}[\dX]{_E}",
    rf"[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}{_E}|(?:0x|U\+)[0-9a-f]+{_E}",
    rf"\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?{_E}",
    rf"v?\d+(?:\.\d+){{1,3}}-?(?:alpha|beta|rc|dev|pre|[ab](?=\.?\d))\.?\d*{_E}|(?:\d{{1,3}}\.){{3}}\d{{1,3}}[:/]\d+{_E}",
    # Amounts of money, lengths, coordinates, telephone numbers, measures.
    rf"(?<![.,])(?:-?{_CURRENCY}{_S}?{_AMOUNT}(?:[-–]{_CURRENCY}?{_AMOUNT})?(?:{_S}?(?:bn|[km]){_E})?)",
    rf"(?<![.,])-?{_AMOUNT}(?:[-–]{_AMOUNT})?(?:[km]|bn)?{_S}?{_CURRENCY}{_E}",
    r"\d{1,2}['′]\d{1,2}[\"″]",  # feet and inches
    rf"\d{{1,3}}(?:[.,]\d{{1,9}})?°(?:{_S}?\d{{1,2}}['′](?:{_S}?\d{{1,2}}(?:[.,]\d{{1,4}})?(?:[\"″]|''))?)?{_S}?(?-i:[NSEWO]){_E}",
    rf"(?<![.,])\+?\(?\d{{1,4}}\)?(?:[ \u00a0./-]?(?:(?<=\D)|(?=\())\(?\d{{1,6}}\)?){{2,6}}{_E}(?![.,]?\d)",
    rf"(?<![.,:/])[-+±]?{_AMOUNT}(?:[-–/]{_AMOUNT})?(?:{_S}|(?=[%°‰a-zµΩ])){_UNIT}{_E}",
    rf"(?<![.,:/])\d{{1,3}}:\d{_E}(?![.,:/]\d)",  # a ratio; a time of day has two digits of minutes
    # Numbers of three parts or more, such as dates; numbers with a sign, powers of ten, long ones.
    rf"(?<![.,])\d+(?:[.,:/'’_–-]\d+|{_S}\d{{3}}(?!\d)){{2,12}}{_E}",
    rf"(?<![.,:/'’-])(?:[+±~≈≤≥]{_S}?\d+(?![.,]?\d)|[§№]{_S}?\d+(?:\.\d+){{0,4}}(?![.,]?\d)|\d+(?:\.\d+)?(?:e[+-]?|\^-?)\d+"
    rf"|(?<!\d{_S})0\d+|\d{{5,}}|\[\d{{1,3}}\]){_E}",
    # Names with digits, but no ordinals, decades and times of day: A4, COVID-19, v10.2, 4K, 2x, H₂O.
    rf"(?!\d{{1,2}}h\d\d{_E})(?-i:[A-Z]{{1,20}}-\d|[A-Za-z]{{1,20}}\d|\d+(?:[A-DF-RT-Z](?![A-Z])|[a-z]{{1,8}}\d|x{_E}))"
    rf"{_L}{{0,100}}(?:[.-]\d+|:[A-Za-z0-9]{{1,100}}|-(?-i:[A-Z]{{1,9}}(?![a-z]))){{0,8}}{_E}",
)
KEPT: Final = re.compile(
    f"{'|'.join(_FROM_ANYWHERE)}"
    rf"|{_B}(?:{'|'.join(_FROM_WORD_START)}|(?=\D{{0,25}}\d)(?:{'|'.join(_WITH_DIGITS)}))",
    re.IGNORECASE,
)
"""Matches a string to keep; if it is a web address, as the group `web`, with the punctuation behind it."""
# Most sentences match neither of these. A class of characters is searched six times as fast as alternatives.
_HINT = re.compile(
    r"[{}\[%`<&@$_:;#^\\=+/\d©®™‼⁉ℹ№〰〽㊗㊙²³¹\u2070-\u209c\u20e3\u2190-\u2bff\ud800-\uf8ff\U00010000-\U0010ffff]"
)
# In names of sites, files, options and calls. Ignoring case, four letters beyond ASCII equal ASCII ones.
_PAIR_HINT = re.compile(r"\.[A-Za-z\[\u0130\u0131\u017f\u212a]|--|\w\([^()]*[)\"',]")


def may_hold_strings(text: str) -> bool:
    """Returns whether a text may hold a string that `KEPT` matches; most texts do not."""
    return bool(_HINT.search(text) or _PAIR_HINT.search(text))
