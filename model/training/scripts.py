"""Which letters a language is written in, to notice sentences of another language."""

import re

_RANGES = {
    "Latin": "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff\uff21-\uff3a\uff41-\uff5a",
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
_SCRIPTS_OF = {
    **dict.fromkeys(("bg", "be", "kk", "ky", "mk", "mn", "ru", "uk"), ("Cyrillic",)),
    **dict.fromkeys(("ar", "fa", "ur"), ("Arabic",)),
    **dict.fromkeys(("hi", "mr", "ne"), ("Devanagari",)),
    "el": ("Greek",),
    "he": ("Hebrew",),
    "ja": ("Kana", "Han"),
    "ko": ("Hangul", "Han"),
    "sr": ("Cyrillic", "Latin"),
    "th": ("Thai",),
    "zh": ("Han",),
    **dict.fromkeys(
        [
            "af",
            "az",
            "bs",
            "ca",
            "cs",
            "cy",
            "da",
            "de",
            "en",
            "eo",
            "es",
            "et",
            "eu",
            "fi",
            "fr",
            "ga",
            "gl",
            "hr",
            "hu",
            "id",
            "is",
            "it",
            "la",
            "lb",
            "lt",
            "lv",
            "mt",
            "ms",
            "nb",
            "nl",
            "nn",
            "no",
            "pl",
            "pt",
            "ro",
            "sk",
            "sl",
            "sq",
            "sv",
            "sw",
            "tl",
            "tr",
            "uz",
            "vi",
        ],
        ("Latin",),
    ),
}
_LETTERS = {script: re.compile(f"[{ranges}]") for script, ranges in _RANGES.items()}
_LOGOGRAPHIC = frozenset(("Han", "Kana", "Hangul"))
_WORD_CHARACTERS = re.compile("[" + "".join(_RANGES[script] for script in sorted(_LOGOGRAPHIC)) + "]")
_LOGOGRAPHIC_WEIGHT = 4
"""A Han, kana or Hangul character says as much as about four letters: 汤姆住在Massachusetts is Chinese."""


def in_script_of(text: str, language: str) -> bool:
    """Whether at least half of a text's letters are of its language's script.

    True as well for text without letters, and for languages whose script is not listed here.
    """
    scripts = _SCRIPTS_OF.get(language.split("-")[0].lower())
    if scripts is None or (text.isascii() and "Latin" in scripts):
        return True
    letters = sum(map(str.isalpha, text))
    own = sum(len(_LETTERS[script].findall(text)) for script in scripts)
    weight = _LOGOGRAPHIC_WEIGHT if _LOGOGRAPHIC.intersection(scripts) else 1
    return own * weight >= letters - own


def count_words(text: str) -> int:
    """Words between white space, where each Han, kana or Hangul character is one of its own."""
    words = len(text.split())
    if text.isascii():
        return words
    characters = len(_WORD_CHARACTERS.findall(text))
    return len(_WORD_CHARACTERS.sub(" ", text).split()) + characters if characters else words
