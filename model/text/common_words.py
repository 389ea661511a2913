"""Common words of languages, and how probable they make a language.

Each language with a list gives a word the probability that Zipf's law gives its rank, 1 / (rank + 2.7)
(Mandelbrot 1953); other words get less than the rarest of the list.
"""

import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

_FILE = Path(__file__).with_name("common_words.txt")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SAMPLE_CHARACTERS = 200
"""Characters whose words count; letter statistics decide longer texts by themselves."""
RANK_SHIFT: Final = 2.7
_UNLISTED_PROBABILITY = 1e-5


@cache
def word_ranks() -> Mapping[str, Mapping[str, int]]:
    """The rank of each word, by language code; the file has one line a language, frequent words first."""
    lines = (line.split() for line in _FILE.read_text(encoding="utf-8").splitlines())
    return {code: {word: rank for rank, word in enumerate(words)} for code, *words in lines}


def reweighted(text: str, confidences: Mapping[str, float]) -> dict[str, float]:
    """Returns the confidences of languages after a look at the words of a text.

    Only the languages with a word list change, and their sum does not.

    Args:
        text: Any text; words after its first 200 characters do not count.
        confidences: By language code; bare codes have word lists.
    """
    listed = {code: ranks for code in confidences if (ranks := word_ranks().get(code)) is not None}
    words = _WORD.findall(text[:_SAMPLE_CHARACTERS].lower().replace("’", "'"))
    known = [word for word in words if any(word in ranks for ranks in listed.values())]
    if not known:
        return dict(confidences)
    scores = {
        code: math.log(confidences[code] + 0.02) + sum(math.log(_probability(word, ranks)) for word in known)
        for code, ranks in listed.items()
    }
    best = max(scores.values())
    shares = {code: math.exp(score - best) for code, score in scores.items()}
    scale = sum(confidences[code] for code in listed) / sum(shares.values())
    return {**confidences, **{code: share * scale for code, share in shares.items()}}


def words_but_names(text: str) -> list[str]:
    """Returns the first words of a text in small letters, without those after the first with a capital."""
    sample = text[:_SAMPLE_CHARACTERS].replace("’", "'")
    found = _WORD.findall(sample.lower() if sample.isupper() else sample)
    return [word.lower() for place, word in enumerate(found) if place == 0 or word.islower()]


def is_known(word: str, ranks: Mapping[str, int]) -> bool:
    """Returns whether a word, or each part of it, is in the list that the ranks are of."""
    return word in ranks or all(part in ranks for part in _parts(word))


def _parts(word: str) -> list[str]:
    """Returns the parts of a compound, and of a word behind an elided one: `l'eau`, `vas-tu`."""
    return re.split(r"-|(?<=')", word)


def _probability(word: str, ranks: Mapping[str, int]) -> float:
    rank = ranks.get(word)
    return _UNLISTED_PROBABILITY if rank is None else 1 / (rank + RANK_SHIFT)
