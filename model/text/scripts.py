"""③ The letters of scripts and the scripts of languages, to detect text of another language."""

import re
import unicodedata
from collections.abc import Collection
from functools import cache
from typing import Final

from model.text.languages import canonical_code

_RANGES = {
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
_LANGUAGES = {
    "Latin": "af az bs ca cs cy da de en eo es et eu fi fr ga gl hr hu id is it la lb lt lv ms mt nb nl nn "
    "no pl pt ro sk sl sq sr sv sw tl tr uz vi",
    "Greek": "el",
    "Cyrillic": "be bg kk ky mk mn ru sr tg uk",
    "Hebrew": "he yi",
    "Arabic": "ar fa ps ur",
    "Devanagari": "hi mr ne",
    "Thai": "th",
    "Kana": "ja",
    "Han": "ja ko zh",
    "Hangul": "ko",
}
_DENSE_SCRIPTS = ("Kana", "Han", "Hangul")
_DENSE_CHARACTER = re.compile("[" + "".join(_RANGES[script] for script in _DENSE_SCRIPTS) + "]")

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
        for letters in _RANGES.values()
        if sum(map(bool, map(re.compile(f"[{letters}]").match, characters))) >= at_least
    ]
    return re.compile(f"[{''.join(ranges)}]" if ranges else "(?!)")


@cache
def _script(language: str) -> re.Pattern[str] | None:
    """Returns a pattern for the letters of a language; None if its script is unknown."""
    ranges = [_RANGES[script] for script, codes in _LANGUAGES.items() if language in codes.split()]
    return re.compile("[" + "".join(ranges) + "]") if ranges else None


@cache
def _is_dense(language: str) -> bool:
    return any(language in _LANGUAGES[script].split() for script in _DENSE_SCRIPTS)


def stable_prefix(text: str) -> str:
    """Returns the part of a text that no further token can change: all before its last word.

    Args:
        text: Text that `Tokenizer.decode` returns for the first tokens of a translation. The next token may
            continue the last word and the last character (a combining mark, further bytes).
    """
    for position in range(len(text) - 1, 0, -1):
        character = text[position]
        if character.isspace() or (UNSPACED.match(character) and not _joins(character)):
            return text[:position].rstrip()
    return ""


def _joins(character: str) -> bool:
    """Returns whether a character combines with the one before it."""
    return unicodedata.category(character).startswith("M")
