"""⑦ A translation that is still growing: how much of its text is sure to stay.

The last word of a text may go on in the next token, and so may the last character: a combining mark
may join it, or more bytes of it may come.
"""

import re
import unicodedata

# Scripts that put no space between words, with their punctuation: each character counts as a word.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u303f\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff01-\uff65\U00020000-\U0003ffff]"
)


def settled(text: str) -> str:
    """What of a text no further token can change: all but its last word, and the space before it.

    Args:
        text: What `Tokenizer.decode` gives for the first tokens of a translation.
    """
    for position in range(len(text) - 1, 0, -1):
        character = text[position]
        if character.isspace() or (_UNSPACED.match(character) and not _joins(character)):
            return text[:position].rstrip()
    return ""


def _joins(character: str) -> bool:
    """Whether a character is part of the one before it."""
    return unicodedata.category(character).startswith("M")
