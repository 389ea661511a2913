"""① Neighbours: languages in Latin letters that a detector does not choose from, but that a text may be in.

Logistic regression on 7,000 texts gave the weights of the evidence.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from model.text.common_words import RANK_SHIFT, is_known, word_ranks, words_but_names
from model.text.languages import canonical_code

if TYPE_CHECKING:
    import lingua

_FILE = Path(__file__).with_name("neighbour_words.txt")
_LINGUA_CODES = {"no": "nb"}
LONGEST_NGRAM: Final = "congr"
"""Letters that load lingua's statistics; as many as its longest n-grams have."""
_SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\] ]*\Z")
_STRANGE_LETTER = re.compile("(?![àâæáçéèêëíîïñóôœöùúûüÿä÷])[à-ɏḁ-ỿ]")
"""A small letter of other languages in Latin script that English, French, German and Spanish lack."""

# The evidence for a neighbour, log of the odds.
_BIAS = -1.1
_BY_COMMON_WORD = -1.5  # for each common word of the likeliest language that the detector chooses from
_BY_OTHER_WORD = -0.4
_BY_STRANGE_LETTER = 6.0
_BY_LETTER_OF_NAME = 1.5  # where only the first word has such a letter, which may be a name
_BY_RARITY = 0.35  # for each nat of rarity in the likeliest language of a common word of the neighbour
_BY_LIKENESS = 0.3  # for each nat by which trigrams prefer the neighbour
_MOST_LIKENESS = 8.0
_RAREST = 8.0  # nats of a word that is no common one
_LEAST_LIKELY = 1e-9  # probability by trigrams


class _Features(NamedTuple):
    """What the words of a text say for and against neighbours.

    Attributes:
        words: In small letters, without names.
        num_common: How many of them are common in the likeliest language that the detector chooses from.
        has_strange_letter: Whether one that is no name at the beginning has a letter of other languages.
        may_begin_with_name: Whether only the first word of a sentence has such a letter.
        is_sentence: Whether the text has several words and ends like a sentence.
        rarities: By neighbour, the nats of rarity in the likeliest language of the neighbour's common words.
    """

    words: Sequence[str]
    num_common: int
    has_strange_letter: bool
    may_begin_with_name: bool
    is_sentence: bool
    rarities: Mapping[str, float]

    @property
    def evidence(self) -> float:
        """The evidence for any neighbour, log of the odds."""
        num_others = len(self.words) - self.num_common
        evidence = _BIAS + _BY_COMMON_WORD * self.num_common + _BY_OTHER_WORD * num_others
        if self.has_strange_letter:
            return evidence + _BY_STRANGE_LETTER
        return evidence + _BY_LETTER_OF_NAME * self.may_begin_with_name


class NeighbourDetector:
    """Detects which neighbour a text is in, if it is in one; loads trigrams where words do not decide."""

    def __init__(self, codes: Sequence[str]) -> None:
        """Takes the codes of the languages that are no neighbours."""
        self._codes = codes
        self._lingua_codes = frozenset(map(lingua_code, codes))

    def detect(self, text: str, likeliest: str) -> tuple[str, float] | None:
        """Returns the neighbour that a text is in and the probability that it is; None if it is in none.

        Args:
            text: Any text.
            likeliest: The likeliest language that is no neighbour; only one with common words has any.
        """
        ranks = word_ranks().get(canonical_code(likeliest))
        words = words_but_names(text)
        if ranks is None or max(map(len, words), default=0) < 3:
            return None
        features = self._features(text, words, ranks)
        if self._is_ruled_out(features):
            return None
        most = _BY_RARITY * max(features.rarities.values(), default=0.0) + _BY_LIKENESS * _MOST_LIKENESS
        if features.evidence + most <= 0:
            return None
        likeness = self._likeness(" ".join(words[1:]) if features.may_begin_with_name else text)
        scores = {
            code: _BY_LIKENESS * nats + _BY_RARITY * features.rarities.get(code, 0.0)
            for code, nats in likeness.items()
        }
        code = max(scores, key=scores.__getitem__, default=None)
        if code is None or features.evidence + scores[code] <= 0:
            return None
        return code, 1 / (1 + math.exp(-features.evidence - scores[code]))

    def _features(self, text: str, words: Sequence[str], ranks: Mapping[str, int]) -> _Features:
        # A capital may begin a name, whose letters say little: São Paulo; Dvořák wrote nine symphonies.
        num_capitals = int(text[:1].isupper() and not text.isupper())
        has_strange_letter = _STRANGE_LETTER.search(" ".join(words[num_capitals:])) is not None
        is_sentence = len(words) > 1 and _SENTENCE_END.search(text) is not None
        return _Features(
            words=words,
            num_common=sum(is_known(word, ranks) for word in words),
            has_strange_letter=has_strange_letter,
            may_begin_with_name=is_sentence
            and not has_strange_letter
            and _STRANGE_LETTER.search(words[0]) is not None,
            is_sentence=is_sentence,
            rarities=self._rarities(words, ranks),
        )

    def _is_ruled_out(self, features: _Features) -> bool:
        """Returns whether all words are known or may be names, or nothing speaks for a neighbour."""
        if features.has_strange_letter:
            return False
        if not features.rarities and not features.is_sentence:
            return True
        # One word is known as one of any language; in several, a name may be the only other one.
        if len(features.words) == 1:
            return self._is_common(features.words[0])
        return features.num_common + features.may_begin_with_name == len(features.words)

    def _is_common(self, word: str) -> bool:
        """Returns whether a word is common in any of the detector's languages."""
        listed = (word_ranks().get(canonical_code(code), {}) for code in self._codes)
        return any(word in ranks for ranks in listed)

    def _rarities(self, words: Iterable[str], ranks: Mapping[str, int]) -> dict[str, float]:
        """Returns how rare the common words of each neighbour are in a language with these ranks, in nats."""
        rarities: dict[str, float] = {}
        for word in words:
            rarity = min(math.log(ranks[word] + RANK_SHIFT), _RAREST) if word in ranks else _RAREST
            for code in neighbour_words().get(word, ()):
                if code not in self._lingua_codes:
                    rarities[code] = rarities.get(code, 0.0) + rarity
        return rarities

    def _likeness(self, text: str) -> dict[str, float]:
        """Returns how much likelier than the detector's languages each neighbour is by trigrams, in nats."""
        values = {
            value.language.iso_code_639_1.name.lower(): math.log(value.value + _LEAST_LIKELY)
            for value in self._statistics.compute_language_confidence_values(text)
        }
        own = (values[code] for code in self._lingua_codes if code in values)
        best = max(own, default=math.log(_LEAST_LIKELY))
        return {
            code: max(-_MOST_LIKENESS, min(value - best, _MOST_LIKENESS))
            for code, value in values.items()
            if code not in self._lingua_codes
        }

    @cached_property
    def _statistics(self) -> "lingua.LanguageDetector":
        """Detects these languages and others by trigrams; loads those one by one, 40 MB in all."""
        import lingua

        neighbours = {code for codes in neighbour_words().values() for code in codes}
        names = {*neighbours, *self._lingua_codes}
        languages = [each for each in lingua.Language.all() if each.iso_code_639_1.name.lower() in names]
        builder = lingua.LanguageDetectorBuilder
        for pair in pairwise(languages):
            detector = builder.from_languages(*pair).with_low_accuracy_mode().build()
            detector.compute_language_confidence_values(LONGEST_NGRAM)
        return builder.from_languages(*languages).with_low_accuracy_mode().build()


def lingua_code(code: str) -> str:
    """Returns the code by which lingua knows a language."""
    language = canonical_code(code)
    return _LINGUA_CODES.get(language, language)


@cache
def neighbour_words() -> Mapping[str, Sequence[str]]:
    """The languages in Latin letters in which a word is common, by word; the file has one line a language."""
    codes: dict[str, list[str]] = {}
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        code, *words = line.split()
        for word in words:
            codes.setdefault(word, []).append(code)
    return codes
