"""③ Normalisation of sentences, the same for training and for serving.

`clean` works on one sentence. The document keeps every other character of the text (`model.text.document`),
so normalisation cannot change a layout.

| in the text                                             | for the network                     |
|---------------------------------------------------------|-------------------------------------|
| composed and decomposed accents                         | composed (NFC)                      |
| tab, line breaks, no-break, thin, ideographic … spaces  | one plain space each                |
| other controls (C0, C1), DEL                            | dropped                             |
| byte order mark, zero-width space, word joiner          | dropped                             |
| soft hyphen, direction marks, annotation marks          | dropped                             |
| zero-width joiner and non-joiner, variation selectors   | kept: they shape letters and emoji  |
| half of a surrogate pair                                | U+FFFD                              |
| ’ between two Latin or Cyrillic letters (l’eau, don’t)  | ' as most parallel text has it      |

Case, quotes, dashes, full-width forms and repeated spaces stay. `nfkc_fallback` replaces compatibility
characters that a vocabulary lacks.
"""

import re
import unicodedata
from collections.abc import Set as AbstractSet
from functools import cache

from model.text.languages import UNSPACED_LETTERS

SPACE = "\u2581"
"""What stands for a space in SentencePiece's pieces."""
# Superscript and subscript digits stay: 10² would become 102.
_KEPT = ("<super>", "<sub>")
_ASCII_SIGNS = str.maketrans("\u2044\u2010", "/-")  # the fraction slash, the hyphen of U+2011
_FRACTION_BEHIND_A_FIGURE = re.compile("(?<=[0-9])[¼-¾⅐-⅞↉]")

_WORD_LETTER = rf"[^\W\d_{UNSPACED_LETTERS}]"
_QUOTATION_MARKS = "\"'“„‘‚"
_MARKS = re.compile(rf"[(\[{{/—–{_QUOTATION_MARKS}]")
_OPENING_QUOTES = rf"""(?<![^\s(\[{{])(?!""|'')[{_QUOTATION_MARKS}]+"""
_MARK = rf"((?<![^\W_])[(\[{{]|{_OPENING_QUOTES}|(?<={_WORD_LETTER})[/—–])"
"""A mark after which a word may begin without a space: an opening one, or a slash or dash between words."""
_MARK_BEFORE_WORD = re.compile(f"{_MARK}(?={_WORD_LETTER})")
# Networks that write spaces after marks also do it in scripts without spaces.
_MARK_BEFORE_SPACE = re.compile(
    rf"{_MARK} (?={_WORD_LETTER})|([(\[{{]|(?<=[^\W\d_])[/—–]) (?=[{UNSPACED_LETTERS}])"
)
_ATTACHED_PUNCTUATION = re.compile(r"(?<=[^ ])[,.!?]")
_SPACES = "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_DROPPED = (
    {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))} - set(_SPACES)
    | set("\xad\u061c\u180e\u200b\u200e\u200f\ufeff\ufff9\ufffa\ufffb")
    | {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2060, 0x2070))}
)
INVISIBLE = "".join(sorted(_DROPPED | set(_SPACES) | {" "}))
"""Every character that `clean` drops or turns into a space; for `str.strip`."""
_REPLACEMENTS = str.maketrans(dict.fromkeys(_DROPPED, "") | dict.fromkeys(_SPACES, " "))
_CONTROLS = str.maketrans(
    {chr(code): None for code in (*range(0x20), *range(0x7F, 0xA0))}
    | dict.fromkeys("\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029", " ")
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_LETTER = "[A-Za-zÀ-ɏЀ-ӿ]"
_APOSTROPHE = re.compile(f"(?<={_LETTER})’(?={_LETTER})")
_LONGEST_RUN_OF_MARKS = 30
"""As in Unicode's stream-safe text format, UAX #15 (https://unicode.org/reports/tr15/)."""
_FIRST_MARK = "\u0300"
_PERHAPS_LONG_RUN = re.compile(f"[^\0-{chr(ord(_FIRST_MARK) - 1)}]{{{_LONGEST_RUN_OF_MARKS + 1}}}")
"""A cheap test that rules out a long run of marks in most texts."""


def nfkc_fallback(text: str, known: AbstractSet[str]) -> str:
    """Replaces unknown compatibility characters by their decomposition, if all of its characters are known.

    The decomposition is Unicode's (UAX #15, https://unicode.org/reports/tr15/).

    Args:
        text: A sentence after `clean`.
        known: Characters that the vocabulary has pieces for.
    """
    if text.isascii() or not (strange := set(text) - known):
        return text
    plain = {ord(character): spelling for character in strange if (spelling := _spelling(character, known))}
    if not plain:
        return text
    apart = _FRACTION_BEHIND_A_FIGURE.sub(lambda found: " " * (ord(found[0]) in plain) + found[0], text)
    return apart.translate(plain)


def _spelling(character: str, known: AbstractSet[str]) -> str | None:
    if unicodedata.decomposition(character).startswith(_KEPT):
        return None
    plain = unicodedata.normalize("NFKC", character).translate(_ASCII_SIGNS).strip()
    return plain if plain != character and set(plain) <= known | {" "} else None


def separate_punctuation(text: str) -> str:
    """Puts a space before each `,` `.` `!` `?` that has none, as Dive into Deep Learning does.

    https://d2l.ai/chapter_recurrent-modern/machine-translation-and-dataset.html
    """
    return _ATTACHED_PUNCTUATION.sub(r" \g<0>", text)


def space_after_marks(text: str) -> str:
    """Puts a space between an opening bracket or quotation mark, a slash or a dash and the word that follows.

    So the word is cut into the same pieces as behind a space: `(two` would be other, rare pieces. Scripts
    without spaces stay as they are.
    """
    return _MARK_BEFORE_WORD.sub(r"\1 ", text) if _MARKS.search(text) else text


def no_space_after_marks(text: str) -> str:
    """Undoes `space_after_marks`; a space that the text had there is removed too."""
    return _MARK_BEFORE_SPACE.sub(r"\1\2", text) if _MARKS.search(text) else text


def clean(text: str) -> str:
    """Returns a sentence as the tokenizer reads it; idempotent, in time linear in its length."""
    if not text.isprintable():
        text = _SURROGATE.sub("\ufffd", text).translate(_REPLACEMENTS)
    if text.isascii():
        return text
    text = _compose(text)
    return _APOSTROPHE.sub("'", text) if "’" in text else text


def without_controls(text: str) -> str:
    """Returns a text whose line breaks and tabs are spaces, without other control characters and surrogates.

    Every other character stays, for tokenizers that normalise text themselves.
    """
    return text if text.isprintable() else _SURROGATE.sub("\ufffd", text).translate(_CONTROLS)


def _compose(text: str) -> str:
    """Applies NFC, except to runs of combining marks that are longer than any language writes.

    The time that canonical ordering of a run takes is quadratic in its length.
    """
    if not _PERHAPS_LONG_RUN.search(text):
        return unicodedata.normalize("NFC", text)
    parts = _long_runs_of_marks().split(text)
    parts[::2] = [unicodedata.normalize("NFC", part) for part in parts[::2]]
    return "".join(parts)


@cache
def _long_runs_of_marks() -> re.Pattern[str]:
    """Returns a pattern that matches runs of combining marks that are too long for NFC."""
    marks = "".join(chr(code) for code in range(ord(_FIRST_MARK), 0x20000) if _is_mark(chr(code)))
    return re.compile(f"([{marks}]{{{_LONGEST_RUN_OF_MARKS + 1},}})")


def _is_mark(character: str) -> bool:
    """Returns whether a character takes part in reordering, directly or after decomposition (U+0F73)."""
    return unicodedata.combining(unicodedata.normalize("NFD", character)[0]) > 0
