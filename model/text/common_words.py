"""① Common words of a few languages, which tell short texts apart where letter statistics do not. No torch.

The statistics of five letters say little: `Hello` looks Spanish, `Merci` too. Each language of the list gives
a word the probability that Zipf's law gives its rank, 1 / (rank + 2.7) (Mandelbrot 1953); other words get
less than the rarest of the list.
"""

import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("common_words.txt")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SHIFT = 2.7
_UNKNOWN = 1e-5
_LONGEST_SAMPLE = 200
"""Characters; letter statistics decide longer texts by themselves."""


def reweighted(text: str, confidences: Mapping[str, float]) -> dict[str, float]:
    """Returns the confidences of languages after a look at the words of a text.

    Only the languages with a word list change, and their sum does not.

    Args:
        text: Any text; words after its first 200 characters do not count.
        confidences: By language code; bare codes have word lists.
    """
    listed = {code: ranks for code in confidences if (ranks := _ranks().get(code)) is not None}
    words = _WORD.findall(text[:_LONGEST_SAMPLE].lower().replace("’", "'"))
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


def _probability(word: str, ranks: Mapping[str, int]) -> float:
    rank = ranks.get(word)
    return _UNKNOWN if rank is None else 1 / (rank + _SHIFT)


@cache
def _ranks() -> Mapping[str, Mapping[str, int]]:
    """The rank of each word, by language code; the file has one line a language, frequent words first."""
    lines = (line.split() for line in _FILE.read_text(encoding="utf-8").splitlines())
    return {code: {word: rank for rank, word in enumerate(words)} for code, *words in lines}
