"""① Languages: their codes, also in the forms of other projects, their names, their capitals and scripts.

`fra_Latn`, `fr_XX`, `>>fra<<` and `<2fr>` all mean `fr`. Scripts tell text of another language.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

_TABLE: Final = [
    line.split("\t")
    for line in Path(__file__).with_name("languages.txt").read_text(encoding="utf-8").splitlines()
]
"""Each language's two-letter code, or its only one; the other codes of it; its English name."""
SHORT_CODES: Final = {other: row[0] for row in _TABLE for other in "".join(row[1:2]).split()}
"""Two-letter codes by other codes: those of three letters, of a group's main language, and former ones."""
LANGUAGE_NAMES: Final = {row[0]: row[2] for row in _TABLE if len(row) > 2}
"""English names by canonical code."""

_SCRIPTS = {
    "Arab": "Arabic", "Beng": "Bengali", "Cyrl": "Cyrillic", "Deva": "Devanagari", "Grek": "Greek",
    "Hant": "traditional", "Hebr": "Hebrew", "Latn": "Latin", "Mtei": "Meitei", "Tfng": "Tifinagh",
}  # fmt: skip

_CODE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_MARK = re.compile(r">>([^<>]+)<<|<2([^<>]+)>|__(\w+)__")
# `XX` is mBART's region for none; `zxx` is ISO's code for no language.
_NOTHING = ("XX", "zxx")
_SUBTAG_SEPARATOR = re.compile(r"[-_.@]")
_UNSPACED_SENTENCES = frozenset({"zh", "ja", "yue", "wuu", "lzh"})
_UNSPACED_WORDS = _UNSPACED_SENTENCES | {"th", "lo", "km", "my"}
_TRADITIONAL = dict.fromkeys(("zt", "zh-tw", "zh-hk", "zh-mo"), "zh-hant")
_DOTTED_AND_DOTLESS_I = frozenset({"tr", "az"})

_LETTERS_OF_SCRIPTS = {
    "Latin": "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
    "\uff21-\uff3a\uff41-\uff5a",
    "Greek": "\u0370-\u03ff\u1f00-\u1fff",
    "Cyrillic": "\u0400-\u052f",
    "Hebrew": "\u0590-\u05ff",
    "Arabic": "\u0600-\u06ff\u0750-\u077f\u08a0-\u08ff\ufb50-\ufdff\ufe70-\ufeff",
    "Devanagari": "\u0900-\u097f",
    "Thai": "\u0e00-\u0e7f",
    "Kana": "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9d",
    "Han": "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f",
    "Hangul": "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af",
}
_LANGUAGES_OF_SCRIPTS = {
    "Latin": "af az bs ca cs cy da de en eo es et eu fi fr ga gl hr hu id is it la lb lt lv ms mt nb nl nn "
    "no pl pt ro sk sl sq sr sv sw tl tr uz vi",
    "Greek": "el",
    "Cyrillic": "az be bg bs kk ky mk mn ru sr tg uk uz",
    "Hebrew": "he yi",
    "Arabic": "ar fa ps ur",
    "Devanagari": "hi mr ne",
    "Thai": "th",
    "Kana": "ja",
    "Han": "ja ko zh",
    "Hangul": "ko",
}
_DENSE_SCRIPTS = ("Kana", "Han", "Hangul")
_DENSE_CHARACTER = re.compile("[" + "".join(_LETTERS_OF_SCRIPTS[script] for script in _DENSE_SCRIPTS) + "]")

# Letters of all scripts but Latin, with their marks.
_NOT_LATIN = re.compile(
    "[\u0370-\u1cff\u1f00-\u1fff\u2c00-\u2c5f\u2c80-\u2dff\u2e80-\u2fdf\u3005-\u3007\u3031-\u303c"
    "\u3041-\ua6ff\ua800-\ud7ff\uf900-\ufaff\ufb13-\ufdff\ufe70-\ufefc\uff66-\uff9d"
    "\U00010000-\U0001cfff\U0001e000-\U0001efff\U00020000-\U0003ffff]"
)

UNSPACED_LETTERS: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Ranges of the letters of scripts without spaces between words."""
UNSPACED_LETTER: Final = re.compile(f"[{UNSPACED_LETTERS}]")

# Scripts without spaces between words, with their punctuation: each character counts as a word.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u303f\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff01-\uff65\U00020000-\U0003ffff]"
)


@lru_cache(maxsize=1024)
def canonical_code(code: str) -> str:
    """Returns the bare language code: `EN`, `en-GB` → `en`; `zh-Hans`, `cmn` → `zh`; `fra` → `fr`."""
    language = _SUBTAG_SEPARATOR.split(code.strip(), maxsplit=1)[0].lower()
    return SHORT_CODES.get(language, language)


def known_code(code: str, known: Iterable[str]) -> str | None:
    """Returns the known code that a user's code means: the same code in any spelling, else its bare language.

    If a language is known with one region or script only, as `pt-BR`, the bare code means that one.

    Args:
        code: A user's code: `EN`, `en_US`, `pt-br`.
        known: The known codes.

    Returns:
        One of `known`, or None.
    """
    codes = tuple(known)
    return code if code in codes else _known_code(code, codes)


@lru_cache(maxsize=1024)
def _known_code(code: str, codes: tuple[str, ...]) -> str | None:
    """Finds a code that is spelt otherwise; kept, as clients repeat theirs and 200 languages take a while."""
    spelt = {_folded(each): each for each in reversed(codes)}
    bare = canonical_code(_folded(code))
    found = spelt.get(_folded(code)) or spelt.get(bare)
    regions = [each for each in dict.fromkeys(codes) if canonical_code(each) == bare]
    is_bare = not _SUBTAG_SEPARATOR.search(code)
    return found or (regions[0] if is_bare and len(regions) == 1 else None)


def _folded(code: str) -> str:
    """Returns a code with its subtags in lower case, and the shortest code of the language."""
    language, *details = code.strip().lower().replace("_", "-").split("-")
    folded = "-".join([SHORT_CODES.get(language, language), *details])
    return _TRADITIONAL.get(folded, folded)


def has_unspaced_words(code: str) -> bool:
    """Returns whether a language writes words without spaces between them."""
    return canonical_code(code) in _UNSPACED_WORDS


def has_unspaced_sentences(code: str) -> bool:
    """Returns whether a language writes sentences without spaces between them."""
    return canonical_code(code) in _UNSPACED_SENTENCES


def gains_spaces(source: str, target: str) -> bool:
    """Returns whether the target language puts spaces between sentences, and the source language does not."""
    return has_unspaced_sentences(source) and not has_unspaced_sentences(target)


def language_name(code: str) -> str:
    """Returns the English name of a language, with its script if need be, or the code if it is unknown."""
    name = LANGUAGE_NAMES.get(canonical_code(code), code)
    script = next((_SCRIPTS[part] for part in code.split("-")[1:] if part in _SCRIPTS), None)
    return f"{name} ({script})" if script else name


def is_language_code(code: object) -> bool:
    """Returns whether a code has the form of `en`, `zh-Hans` or `pt-BR`."""
    return isinstance(code, str) and _CODE.fullmatch(code) is not None


def bare_tag(piece: str) -> str | None:
    """Returns the code within `>>fra<<`, `<2fr>` or `__fr__`; None if the piece is no language tag."""
    found = _MARK.fullmatch(piece)
    return next(filter(None, found.groups())) if found else None


def language_codes(names: Iterable[str]) -> dict[str, str]:
    """Returns our codes by names, all different; names that are no language, such as `ROMANCE`, are left out.

    Script and region are kept only where names differ in nothing else. Simplified Chinese is `zh`.
    """
    parts = {name: _parts(name) for name in names}
    sharing = Counter(SHORT_CODES.get(language, language) for language, _ in parts.values())
    codes: dict[str, str] = {}
    for name, (language, details) in sorted(parts.items(), key=lambda item: bool(item[1][1])):
        bare = SHORT_CODES.get(language, language)
        is_main = sharing[bare] == 1 or not details or details == ["Hans"]
        full = "-".join([bare, *details])
        options = (bare if is_main else full, full, language, "-".join([language, *details]))
        taken = codes.values()
        if code := next((each for each in options if is_language_code(each) and each not in taken), None):
            codes[name] = code
    return {name: codes[name] for name in parts if name in codes}


def language_code(name: str) -> str | None:
    """Returns our code of one name; None if it is no language."""
    return language_codes([name]).get(name)


def _parts(name: str) -> tuple[str, Sequence[str]]:
    """Returns the language, and script and region in their usual spelling."""
    language, *details = re.split("[-_]", bare_tag(name) or name)
    spelt = [each.upper() if len(each) == 2 else each.title() for each in details]
    if language in _NOTHING:
        return "", []
    return language, [each for each in spelt if each not in _NOTHING]


def upper(text: str, language: str) -> str:
    """Returns a text in capitals; in Turkish and Azerbaijani, `i` becomes `İ`."""
    return (text.replace("i", "İ") if canonical_code(language) in _DOTTED_AND_DOTLESS_I else text).upper()


def lower(text: str, language: str) -> str:
    """Returns a text in lower case; in Turkish and Azerbaijani, `I` becomes `ı`."""
    if canonical_code(language) in _DOTTED_AND_DOTLESS_I:
        text = text.replace("İ", "i").replace("I", "ı")
    return text.lower()


def in_script_of(text: str, language: str) -> bool:
    """Returns whether a text is in its language's script, with some foreign names and terms.

    At least half of the letters must be. A Han, kana or Hangul character says as much as half a word, so
    foreign words count there instead of their letters: 汤姆住在 New Haven is Chinese. Text without letters
    and languages without a known script always pass.
    """
    language = canonical_code(language)
    script = _script(language)
    if script is None or (text.isascii() and script.match("a")):
        return True
    rest, own = script.subn(" ", text)
    if _is_dense(language):
        foreign = sum(any(map(str.isalpha, word)) for word in rest.split())
        return foreign == 0 or 2 * own > foreign
    return own >= sum(map(str.isalpha, rest))


def foreign_letters(text: str, language: str) -> frozenset[str]:
    """Returns the letters of a text whose script its language is not written in, such as Han in French.

    Latin letters may stand in a text of any language, and all letters in one of a language without a known
    script.
    """
    script = None if text.isascii() else _script(canonical_code(language))
    if script is None:
        return frozenset()
    return frozenset(letter for letter in _NOT_LATIN.findall(text) if not script.match(letter))


def words_in_other_scripts(text: str, language: str) -> re.Pattern[str] | None:
    """Returns a pattern for the words of a text that are neither in Latin nor in the script of its language.

    There is none for a text without such words or without others, or whose language has no known script.
    """
    own = None if text.isascii() else _script(canonical_code(language))
    if own is None or own.search(text) is None:
        return None
    words = _words_without(own.pattern)
    return words if words.search(text) else None


@cache
def _words_without(letters: str) -> re.Pattern[str]:
    word = rf"(?:(?!{letters}){_NOT_LATIN.pattern}){{1,40}}"
    return re.compile(rf"(?=[^\W\d_]){word}(?:(?:[.'’/@_·-]|[,،、]? ){word}){{0,8}}")


def is_in_other_scripts(text: str, language: str) -> bool:
    """Returns whether no letter of a text is in Latin or in the script of its language, if that is known."""
    own = None if text.isascii() else _script(canonical_code(language))
    return own is not None and not any(
        own.match(letter) or not _NOT_LATIN.match(letter) for letter in text if letter.isalpha()
    )


def count_words(text: str) -> int:
    """Counts the words between white space; each Han, kana or Hangul character counts as a word."""
    if text.isascii():
        return len(text.split())
    rest, characters = _DENSE_CHARACTER.subn(" ", text)
    return len(rest.split()) + characters


def letters_of_scripts(characters: Collection[str], *, at_least: int) -> re.Pattern[str]:
    """Returns a pattern for the letters of the scripts that have `at_least` of the characters."""
    ranges = [
        letters
        for letters in _LETTERS_OF_SCRIPTS.values()
        if sum(map(bool, map(re.compile(f"[{letters}]").match, characters))) >= at_least
    ]
    return re.compile(f"[{''.join(ranges)}]" if ranges else "(?!)")


@cache
def _script(language: str) -> re.Pattern[str] | None:
    """Returns a pattern for the letters of a language; None if its script is unknown."""
    ranges = [
        _LETTERS_OF_SCRIPTS[script]
        for script, codes in _LANGUAGES_OF_SCRIPTS.items()
        if language in codes.split()
    ]
    return re.compile("[" + "".join(ranges) + "]") if ranges else None


@cache
def _is_dense(language: str) -> bool:
    return any(language in _LANGUAGES_OF_SCRIPTS[script].split() for script in _DENSE_SCRIPTS)
