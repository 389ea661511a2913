"""① Detects among the languages of the loaded checkpoints: by letters, common words and scripts. No torch.

Letter statistics of five letters say little: `Hello` looks Spanish, `Merci` too. Therefore common words count
as well.
"""

import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from model.text.common_words import reweighted
from model.text.kept_strings import without_kept_strings
from model.text.languages import canonical_code
from model.text.neighbour_languages import LONGEST_NGRAM, NeighbourDetector, lingua_code
from model.text.normalisation import clean

if TYPE_CHECKING:
    import lingua

logger = logging.getLogger(__name__)

_OWN_SCRIPTS = {
    "am": "\u1200-\u139f", "bo": "\u0f00-\u0fff", "dv": "\u0780-\u07bf", "km": "\u1780-\u17ff",
    "kn": "\u0c80-\u0cff", "lo": "\u0e80-\u0eff", "ml": "\u0d00-\u0d7f", "my": "\u1000-\u109f",
    "or": "\u0b00-\u0b7f", "sat": "\u1c50-\u1c7f", "si": "\u0d80-\u0dff",
}  # fmt: skip
"""Languages without statistics that have, or lead, a script of their own."""
_ANY_OWN_SCRIPT = re.compile(f"[{''.join(_OWN_SCRIPTS.values())}]")
_OWN_SCRIPT = re.compile("|".join(f"(?P<{code}>[{letters}])" for code, letters in _OWN_SCRIPTS.items()))
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa\u30fc]")
_KANA_OR_HAN = re.compile("[\u3041-\u3096\u30a1-\u30fa\u30fc\u3400-\u9fff]")
_LETTER = re.compile(r"[^\W\d_]")
_SYLLABLE = re.compile(r"[^\W\d_]{2}")

_SAMPLE_CHARACTERS = 2000
"""Characters that are examined, from the first letter on."""
_SAMPLE_PAIRS = 200
"""Lines of two columns that are examined."""

_MOST_IN_ALL_LENGTHS = 20
"""Languages whose n-grams of all lengths are loaded."""

# Which languages are likelier in advance.
_AMBIGUOUS_CHARACTERS = 20  # length up to which a text can be in several languages
_PREFERENCE = 3.0  # factor for languages that the sender of a text reads
_MOST_WRITTEN = ("hi", "ru")  # in scripts whose languages are hard to tell apart in a word

# Languages of the sentences of a text: log of the probability that the next sentence is in another one, and
# the nats of evidence that a sentence gives for each letter and at most, as the confidences are too high.
_LOG_CHANGE = math.log(0.02)
_EVIDENCE_OF_A_LETTER, _MOST_EVIDENCE = 1.0, 30.0


@dataclass(frozen=True, kw_only=True)
class Detection:
    """A language that a text may be in.

    Attributes:
        language: One of the detector's codes.
        confidence: Probability that the text is in this language, given that it is in one of the detector's
            languages. The confidences of one text sum to 1, or all are 0 if nothing indicates a language.
    """

    language: str
    confidence: float


def usable_language(ranked: Sequence[Detection], is_usable: Callable[[str], bool]) -> Detection:
    """Returns the likeliest usable language, or the likeliest of all if it is more than twice as likely.

    Args:
        ranked: Detections, the most probable first; at least one.
        is_usable: Whether the language of a code is usable.
    """
    usable = next((found for found in ranked if is_usable(found.language)), ranked[0])
    return ranked[0] if ranked[0].confidence > 2 * usable.confidence else usable


class LanguageDetector:
    """Detects which of a few languages a text is in, by letter n-grams; a single word is enough.

    The statistics of these languages are loaded at the first text: about 0.3 s and 90 MB for English and
    French. Of more than 20 languages only the statistics of trigrams are loaded, for all 75 in 1 s and 60 MB
    instead of 16 s and 1 GB; single words are then often mistaken. Thread-safe.

    Attributes:
        codes: The languages.
        is_loaded: Whether `load` has loaded the statistics.
    """

    def __init__(self, codes: Sequence[str]) -> None:
        """Chooses the languages.

        Args:
            codes: Language codes, in order of preference for undecided texts. Languages without statistics
                (lingua has 75) are detected only if they have a script of their own.
        """
        self.codes = tuple(dict.fromkeys(codes))
        self.is_loaded = False
        self._neighbours = NeighbourDetector(self.codes)

    def load(self) -> None:
        """Loads the statistics of languages in Latin letters in pieces of a tenth of a second.

        lingua holds Python's lock while it loads. Between two pieces other threads run.
        """
        languages = list(self._code_of)
        for pair in pairwise(languages):
            detector = self._built(pair)
            for length in range(1, len(LONGEST_NGRAM) + 1):
                detector.compute_language_confidence_values(LONGEST_NGRAM[:length])
        self.is_loaded = True

    def detect(self, text: str, reader: Sequence[str] = ()) -> list[Detection]:
        """Returns all the languages, the most probable first.

        Args:
            text: Any text.
            reader: Languages that its sender reads, by preference, in any form. They decide short texts that
                could be in several languages.

        For a text without letters every confidence is 0 and the order is that of preference. For a text in
        letters of other languages only, the likeliest of those precedes, unless a language without statistics
        and without a script of its own might have these letters. So does another language in Latin letters if
        common words and trigrams speak for it rather than for the detector's, whose confidences are then 0;
        the likeliest of the detector's must have a list of common words. A detector of one language is
        otherwise certain about any text with letters, except those of such a script.
        """
        text = without_kept_strings(text[: 2 * _SAMPLE_CHARACTERS]) + text[2 * _SAMPLE_CHARACTERS :]
        letter = _LETTER.search(text)
        sample = clean(text[letter.start() :][:_SAMPLE_CHARACTERS]) if letter else ""
        own = _language_of_script(sample)
        if self._knows_scripts and _is_japanese(sample):
            own = "ja"
        confidences = self._confidences(sample) if letter and not own else {}
        if reader and len(sample) <= _AMBIGUOUS_CHARACTERS:
            confidences = _favoured(confidences, set(map(canonical_code, reader)))
        detections = [Detection(language=code, confidence=confidences.get(code, 0.0)) for code in self.codes]
        if own:
            found = next((code for code in self.codes if canonical_code(code) == own), own)
            others = [detection for detection in detections if detection.language != found]
            return [Detection(language=found, confidence=1.0), *others]
        if self._knows_scripts and not any(confidences.values()) and _SYLLABLE.search(sample):
            return [_foreign_language(sample), *detections]
        detections.sort(key=lambda detection: -detection.confidence)
        if detections and (neighbour := self._neighbours.detect(sample, detections[0].language)):
            language, confidence = neighbour
            first = Detection(language=language, confidence=confidence)
            return [first, *(Detection(language=each.language, confidence=0.0) for each in detections)]
        return detections

    def detect_each(self, sentences: Sequence[str], main: str, codes: Collection[str]) -> list[str]:
        """Returns the language of each sentence of a text in which several languages may be mixed.

        These are the states of a hidden Markov model that most probably give the sentences (Viterbi 1967,
        https://doi.org/10.1109/TIT.1967.1054010). The language rarely changes, and a short sentence
        says little.

        Args:
            sentences: In order.
            main: The language of most of them.
            codes: The languages that they may be in, in addition to `main`.
        """
        if len(sentences) < 2:
            return [main] * len(sentences)
        states = [main, *(code for code in codes if code != main)]
        scores = [0.0, *(_LOG_CHANGE for _ in states[1:])]
        origins: list[list[int]] = []
        for sentence in sentences:
            best = max(range(len(states)), key=scores.__getitem__)
            origin = [i if scores[i] >= scores[best] + _LOG_CHANGE else best for i in range(len(states))]
            evidence = self._evidence(sentence, states)
            scores = [
                scores[before] + _LOG_CHANGE * (before != i) + evidence[i] for i, before in enumerate(origin)
            ]
            origins.append(origin)
        path = [max(range(len(states)), key=scores.__getitem__)]
        for origin in reversed(origins[1:]):
            path.append(origin[path[-1]])
        return [states[i] for i in reversed(path)]

    def _evidence(self, sentence: str, codes: Sequence[str]) -> list[float]:
        """Returns the log of the likelihood of each language for a sentence, relative to the likeliest."""
        found = {detection.language: detection.confidence for detection in self.detect(sentence)}
        letters = sum(3 if letter > "\u2e80" else 1 for letter in sentence if letter.isalpha())
        least = math.exp(-min(letters * _EVIDENCE_OF_A_LETTER, _MOST_EVIDENCE))
        highest = max(found.get(code, 0.0) for code in codes)
        return [math.log(max(found.get(code, 0.0) / highest, least)) if highest else 0.0 for code in codes]

    def _confidences(self, text: str) -> dict[str, float]:
        if not self._code_of:
            return {}
        if len(self._code_of) == 1:
            return dict.fromkeys(self._code_of.values(), 1.0)
        values = self._lingua.compute_language_confidence_values(text)
        found = {self._code_of[value.language]: value.value for value in values}
        return reweighted(text, found) if any(found.values()) else found

    @cached_property
    def _code_of(self) -> "dict[lingua.Language, str]":
        import lingua

        codes = {lingua_code(code): code for code in reversed(self.codes)}
        known = {language.iso_code_639_1.name.lower(): language for language in lingua.Language.all()}
        return {known[name]: code for name, code in codes.items() if name in known}

    @cached_property
    def _knows_scripts(self) -> bool:
        """Returns whether a text without a known letter is in none of the languages."""
        with_statistics = set(self._code_of.values())
        others = (canonical_code(code) for code in self.codes if code not in with_statistics)
        return bool(self.codes) and all(code in _OWN_SCRIPTS for code in others)

    @cached_property
    def _lingua(self) -> "lingua.LanguageDetector":
        return self._built(self._code_of)

    def _built(self, languages: "Iterable[lingua.Language]") -> "lingua.LanguageDetector":
        import lingua

        builder = lingua.LanguageDetectorBuilder.from_languages(*languages)
        has_all_lengths = len(self._code_of) <= _MOST_IN_ALL_LENGTHS
        return (builder if has_all_lengths else builder.with_low_accuracy_mode()).build()


def _favoured(confidences: Mapping[str, float], codes: Collection[str]) -> dict[str, float]:
    """Returns the confidences of languages, where some are likelier in advance."""
    weights = {code: _PREFERENCE if canonical_code(code) in codes else 1.0 for code in confidences}
    total = sum(weights[code] * confidence for code, confidence in confidences.items())
    return {code: weights[code] * each / (total or 1.0) for code, each in confidences.items()}


@cache
def has_statistics() -> bool:
    """Returns whether lingua is installed; its statistics take 96 MB, which a borrowed machine may lack."""
    if find_spec("lingua") is None:
        logger.warning("the package lingua-language-detector is missing: languages are not checked")
        return False
    return True


def are_exchanged(pairs: Iterable[tuple[str, str]], languages: tuple[str, str]) -> bool:
    """Returns whether two columns of text are clearly in each other's language; False without statistics."""
    if not has_statistics():
        return False
    detector, first = LanguageDetector(languages), list(islice(pairs, _SAMPLE_PAIRS))
    guesses = [detector.detect("\n".join(pair[side] for pair in first))[0] for side in (0, 1)]
    return all(
        guess.language == other and guess.confidence > 0.9
        for guess, other in zip(guesses, reversed(languages), strict=True)
    )


def _language_of_script(text: str) -> str:
    """Returns the language that most letters of a text say by their script alone; empty if there is none."""
    if text.isascii() or _ANY_OWN_SCRIPT.search(text) is None:
        return ""
    counts = Counter(match.lastgroup for match in _OWN_SCRIPT.finditer(text))
    ((code, count),) = counts.most_common(1)
    return code if code and 2 * count > sum(map(str.isalpha, text)) else ""


def _is_japanese(text: str) -> bool:
    """Returns whether most letters of a text are kana and Han, and a quarter of these are kana.

    Where Shift JIS has all of them, and so no simplified Chinese, one is enough that Chinese lacks: a kana
    other than no, which Chinese shops write too, or a character of the Japanese reform.
    """
    num_kana, written = len(_KANA.findall(text)), "".join(_KANA_OR_HAN.findall(text))
    if 2 * len(written) <= sum(map(str.isalpha, text)):
        return False
    if num_kana > 1 and 4 * num_kana >= len(written):
        return True
    is_own = num_kana > written.count("の") or not all(
        _has(letter, "gb2312") or _has(letter, "big5hkscs") for letter in set(written)
    )
    return is_own and _has(written, "shift_jis")


def _has(text: str, charset: str) -> bool:
    return len(text.encode(charset, "ignore")) == 2 * len(text)


def _foreign_language(text: str) -> Detection:
    """Returns the likeliest of all languages that have statistics; loads those of one script, some 20 MB."""
    values = _all_languages().compute_language_confidence_values(text)
    confidences = {value.language.iso_code_639_1.name.lower(): value.value for value in values}
    confidences = _favoured(confidences, _MOST_WRITTEN)
    likeliest = max(confidences, key=confidences.__getitem__)
    return Detection(language=likeliest, confidence=confidences[likeliest])


@cache
def _all_languages() -> "lingua.LanguageDetector":
    import lingua

    return lingua.LanguageDetectorBuilder.from_all_languages().with_low_accuracy_mode().build()
