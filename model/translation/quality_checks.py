"""⑦ Translations that look broken: what is wrong with one, by itself and beside its source."""

import re
from collections.abc import Sequence
from typing import Final, Literal, get_args

from model.request import Hypothesis
from model.text.normalisation import clean

Kind = Literal["loop", "unfinished", "empty", "copy", "length"]
"""`loop`: it says the same over and over, and its source does not; `unfinished`: its length limit ended it;
`empty`: it holds no text; `copy`: it is its source; `length`: it is far longer or shorter than its source.
"""

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

_LONGEST_LOOP = 4
_REPETITIONS = 4
# Real translations between a dozen languages stay well inside, in tokens of either side.
_LONG, _LONG_OFFSET = 2, 20
_SHORT, _SHORT_OFFSET = 6, 10
# Names, numbers, code and addresses are rightly copied; so are a few words that two languages share.
_COPIED_WORDS = 4
_COPIED_LETTERS = 8
_WORD = re.compile(r"(?<!\S)[^\W\d_]+(?:['’-][^\W\d_]+)*(?=[,;:.!?…]*(?:\s|$))")


def diagnose(source: str, source_ids: Sequence[int], best: Hypothesis, text: str) -> Kind | None:
    """The first of KINDS that a translation is, or nothing.

    Args:
        source: The sentence.
        source_ids: As the network read it.
        best: Its translation.
        text: That in words.
    """
    if _is_loop(best.token_ids, source_ids):
        return "loop"
    if not best.finished:
        return "unfinished"
    if not text.strip():
        return "empty"
    if _is_copy(text, source):
        return "copy"
    return "length" if _is_outlier(len(best.token_ids), len(source_ids)) else None


def repeats_itself(source_ids: Sequence[int]) -> bool:
    """Whether a source has a group of tokens so often in a row that its translation may need one, too."""
    return _most_repetitions(source_ids) >= 2 * _REPETITIONS


def _is_loop(ids: Sequence[int], source_ids: Sequence[int]) -> bool:
    # Most translations repeat hardly anything; a set tells that at once.
    if len(ids) - len(set(ids)) < _REPETITIONS - 1:
        return False
    repetitions = _most_repetitions(ids)
    return repetitions >= _REPETITIONS and repetitions > 2 * _most_repetitions(source_ids)


def _most_repetitions(ids: Sequence[int]) -> int:
    """How often a group of a few tokens comes in a row, where that is most often; at least 1."""
    return max(1 + _longest_run(ids, size) // size for size in range(1, _LONGEST_LOOP + 1))


def _longest_run(ids: Sequence[int], size: int) -> int:
    """Most tokens in a row of which each equals the one `size` places before it."""
    longest = run = 0
    for token, before in zip(ids[size:], ids, strict=False):
        run = run + 1 if token == before else 0
        longest = max(longest, run)
    return longest


def _is_copy(text: str, source: str) -> bool:
    # Cleaning takes longer than all else here, and hardly any translation begins as its source does.
    if text[:1] != source[:1] or text != clean(source):
        return False
    words = sum(map(str.islower, _WORD.findall(text)))
    return words >= _COPIED_WORDS or sum(map(_is_caseless, text)) >= _COPIED_LETTERS


def _is_caseless(character: str) -> bool:
    """Whether it is a letter of a script without capitals: a word in it does not show to be a name."""
    return character.isalpha() and character.lower() == character.upper()


def _is_outlier(length: int, source_length: int) -> bool:
    return length > _LONG * source_length + _LONG_OFFSET or source_length > _SHORT * length + _SHORT_OFFSET
