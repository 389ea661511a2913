"""What a language code says."""

import re
from collections.abc import Iterable
from functools import lru_cache

from model.text.language_names import REPLACED_CODES

_SUBTAG_SEPARATOR = re.compile(r"[-_.@]")
_UNSPACED_SENTENCES = frozenset({"zh", "ja", "yue", "wuu", "lzh"})
_UNSPACED_WORDS = _UNSPACED_SENTENCES | {"th", "lo", "km", "my"}


@lru_cache(maxsize=256)
def canonical_code(code: str) -> str:
    """The bare language of a code: `EN`, `en-GB` → `en`; `zh-Hans`, `zh_CN`, `cmn` → `zh`; `iw` → `he`."""
    language = _SUBTAG_SEPARATOR.split(code.strip(), maxsplit=1)[0].lower()
    return REPLACED_CODES.get(language, language)


def known_code(code: str, known: Iterable[str]) -> str | None:
    """Which of these codes a user's means: the same one, however spelt, else the bare language of it.

    Of a language that is known by one region or script alone, as in `pt-BR`, the bare code means that.

    Args:
        code: `EN`, `en_US`, `pt-br`.
        known: In the spelling that is wanted.
    """
    codes = list(dict.fromkeys(known))
    if code in codes:
        return code
    spelt = {_folded(each): each for each in reversed(codes)}
    bare = canonical_code(code)
    found = spelt.get(_folded(code)) or spelt.get(bare)
    regions = [each for each in codes if canonical_code(each) == bare]
    is_bare = not _SUBTAG_SEPARATOR.search(code)
    return found or (regions[0] if is_bare and len(regions) == 1 else None)


def _folded(code: str) -> str:
    return code.strip().lower().replace("_", "-")


def has_unspaced_words(code: str) -> bool:
    """Whether the words of a sentence follow each other without a space."""
    return canonical_code(code) in _UNSPACED_WORDS


def has_unspaced_sentences(code: str) -> bool:
    """Whether sentences follow each other without a space."""
    return canonical_code(code) in _UNSPACED_SENTENCES


def gains_spaces(source: str, target: str) -> bool:
    """Whether sentences follow each other without a space in one language, and with one in the other."""
    return has_unspaced_sentences(source) and not has_unspaced_sentences(target)
