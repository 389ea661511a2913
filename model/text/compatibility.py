"""③ Characters that a vocabulary lacks, written in ones that it has: ﬁ as fi, ½ as 1/2, № as No."""

import re
import unicodedata
from collections.abc import Set as AbstractSet

# Raised and lowered figures are not written plainly: 10² would become 102.
_KEPT = ("<super>", "<sub>")
_FRACTION_SLASH = "\u2044"
_FRACTION_BEHIND_A_FIGURE = re.compile("(?<=[0-9])[¼-¾⅐-⅞↉]")


def familiar(text: str, known: AbstractSet[str]) -> str:
    """The same text with unknown compatibility characters spelt out, where all of the spelling is known.

    What each stands for is Unicode's compatibility decomposition (UAX #15,
    https://unicode.org/reports/tr15/).

    Args:
        text: A clean sentence.
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
    plain = unicodedata.normalize("NFKC", character).replace(_FRACTION_SLASH, "/").strip()
    return plain if plain != character and set(plain) <= known | {" "} else None
