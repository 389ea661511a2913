"""① Names of languages, and which served language a text is in."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import lingua

from model.text.language_codes import canonical_code
from model.text.language_names import LANGUAGE_NAMES
from model.text.normalisation import clean

_LINGUA_CODES = {"no": "nb"}
_LETTER = re.compile(r"[^\W\d_]")
_SAMPLE = 2000
"""Characters that decide, from the first letter on; more only take time."""


def language_name(code: str) -> str:
    """Name in English, or the code itself where the language is not a known one."""
    return LANGUAGE_NAMES.get(canonical_code(code), code)


@dataclass(frozen=True, kw_only=True)
class Detection:
    """A language that a text may be in.

    Attributes:
        language: One of the detector's codes.
        confidence: From 0 to 1. Those of one text sum to 1: it is the probability given that
            the text is in one of the detector's languages. All are 0 where nothing tells.
    """

    language: str
    confidence: float


def usable_language(ranked: Sequence[Detection], is_usable: Callable[[str], bool]) -> Detection:
    """The likeliest language that is of use, unless another one is twice as likely: then that one.

    Args:
        ranked: The most probable first, at least one.
        is_usable: Told of a language's code.
    """
    usable = next((found for found in ranked if is_usable(found.language)), ranked[0])
    return ranked[0] if ranked[0].confidence > 2 * usable.confidence else usable


class LanguageDetector:
    """Tells a few languages apart by their letter n-grams, from single words up.

    Only the statistics of these languages are loaded, at the first text: about 0.3 s and
    90 MB for English and French. Thread-safe.
    """

    def __init__(self, codes: Sequence[str]) -> None:
        """Choose the languages.

        Args:
            codes: In order of preference, for texts that nothing tells apart. Languages
                without statistics (lingua knows 75) are never detected.
        """
        self.codes = tuple(dict.fromkeys(codes))

    def detect(self, text: str) -> list[Detection]:
        """All the languages, the most probable first.

        A text without letters (digits, emoji, blank), or in the letters of other languages only,
        has confidence 0 for each, in the order of preference. A lone language is certain
        wherever there are letters.
        """
        letter = _LETTER.search(text)
        confidences = self._confidences(clean(text[letter.start() :][:_SAMPLE])) if letter else {}
        detections = [Detection(language=code, confidence=confidences.get(code, 0.0)) for code in self.codes]
        return sorted(detections, key=lambda detection: -detection.confidence)

    def _confidences(self, text: str) -> dict[str, float]:
        if not self._code_of:
            return {}
        if len(self._code_of) == 1:
            return dict.fromkeys(self._code_of.values(), 1.0)
        values = self._lingua.compute_language_confidence_values(text)
        return {self._code_of[value.language]: value.value for value in values}

    @cached_property
    def _code_of(self) -> dict[lingua.Language, str]:
        codes = {_lingua_code(code): code for code in reversed(self.codes)}
        known = {language.iso_code_639_1.name.lower(): language for language in lingua.Language.all()}
        return {known[lingua_code]: code for lingua_code, code in codes.items() if lingua_code in known}

    @cached_property
    def _lingua(self) -> lingua.LanguageDetector:
        return lingua.LanguageDetectorBuilder.from_languages(*self._code_of).build()


def _lingua_code(code: str) -> str:
    language = canonical_code(code)
    return _LINGUA_CODES.get(language, language)
