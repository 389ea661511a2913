"""⑦ Checks for translations that look broken, alone or compared with their source."""

import re
from collections.abc import Sequence
from typing import Final, Literal, get_args

from model.decode_request import Hypothesis
from model.text.languages import foreign_letters, in_script_of

Kind = Literal["loop", "unfinished", "empty", "copy", "length", "brackets", "script"]
"""What is wrong with a translation.

- `loop`: it repeats the same tokens, and its source does not.
- `unfinished`: its length limit ended it.
- `empty`: it holds no text.
- `copy`: it equals its source.
- `length`: it is far longer or shorter than its source.
- `brackets`: it has lost one of a pair of round brackets.
- `script`: it has letters of a script that neither its source nor its language is written in.
"""

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

_LONGEST_LOOP = 4
_REPETITIONS = 4
# In tokens. Real translations between a dozen languages stay well within these bounds.
_LONG, _LONG_OFFSET = 2, 20
_SHORT, _SHORT_OFFSET = 6, 10
# Names, numbers, code, addresses and a few words may equal their source without being a fault.
_COPIED_WORDS = 4
_COPIED_LETTERS = 8
_WORD = re.compile(r"(?<!\S)[^\W\d_]+(?:['’-][^\W\d_]+)*(?=[,;:.!?…]*(?:\s|$))")


def diagnose(
    source: str,
    source_ids: Sequence[int],
    best: Hypothesis,
    text: str,
    target: str,
    terms: Sequence[str] = (),
) -> Kind | None:
    """Returns the first of KINDS that applies to a translation, or None.

    Args:
        source: The sentence after `clean`.
        source_ids: Token ids that the network read.
        best: The best hypothesis.
        text: Text of the best hypothesis.
        target: Code of its language.
        terms: What a glossary wants in the text.
    """
    if _is_loop(best.token_ids, source_ids):
        return "loop"
    if not best.finished:
        return "unfinished"
    if not text.strip():
        return "empty"
    if _is_copy(text, source):
        return "copy"
    if _is_outlier(len(best.token_ids), len(source_ids)):
        return "length"
    if _has_pairs(source) and not _has_pairs(text):
        return "brackets"
    return "script" if _is_mixed(text, target, "".join((source, *terms))) else None


def repeats_itself(source_ids: Sequence[int]) -> bool:
    """Returns whether a source repeats a group of tokens so often that its translation may repeat one too."""
    return _most_repetitions(source_ids) >= 2 * _REPETITIONS


def _is_loop(ids: Sequence[int], source_ids: Sequence[int]) -> bool:
    # Most translations repeat hardly anything, which the size of a set shows at once.
    if len(ids) - len(set(ids)) < _REPETITIONS - 1:
        return False
    repetitions = _most_repetitions(ids)
    return repetitions >= _REPETITIONS and repetitions > 2 * _most_repetitions(source_ids)


def _most_repetitions(ids: Sequence[int]) -> int:
    """Returns the most times that a group of up to four tokens occurs in a row; at least 1."""
    return max(1 + _longest_run(ids, size) // size for size in range(1, _LONGEST_LOOP + 1))


def _longest_run(ids: Sequence[int], size: int) -> int:
    """Returns the most tokens in a row that each equal the token `size` places earlier."""
    longest = run = 0
    for token, before in zip(ids[size:], ids, strict=False):
        run = run + 1 if token == before else 0
        longest = max(longest, run)
    return longest


def _is_copy(text: str, source: str) -> bool:
    if text != source:
        return False
    words = sum(map(str.islower, _WORD.findall(text)))
    return words >= _COPIED_WORDS or sum(map(_is_caseless, text)) >= _COPIED_LETTERS


def _is_caseless(character: str) -> bool:
    """Returns whether a character is a letter of a script without capitals, where names do not show."""
    return character.isalpha() and character.lower() == character.upper()


def _has_pairs(text: str) -> bool:
    """Returns whether a text has round brackets, half of them closing ones."""
    return 0 < sum(map(text.count, "(（")) == sum(map(text.count, ")）"))


def _is_mixed(text: str, language: str, given: str) -> bool:
    """Returns whether a text in the script of its language has letters of another one that were not given."""
    strange = foreign_letters(text, language)
    return not strange <= set(given) and in_script_of(text, language)


def _is_outlier(length: int, source_length: int) -> bool:
    return length > _LONG * source_length + _LONG_OFFSET or source_length > _SHORT * length + _SHORT_OFFSET
