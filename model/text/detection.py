"""① Detects among the languages of the loaded checkpoints: by letters, common words and scripts. No torch.

Letter statistics of five letters say little: `Hello` looks Spanish, `Merci` too. Each language of a list of
common words gives a word the probability that Zipf's law gives its rank, 1 / (rank + 2.7) (Mandelbrot 1953);
other words get less than the rarest of the list.
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
from pathlib import Path
from typing import TYPE_CHECKING

from model.text.kept_strings import without_kept_strings
from model.text.languages import canonical_code
from model.text.normalisation import clean

if TYPE_CHECKING:
    import lingua

logger = logging.getLogger(__name__)

_LINGUA_CODES = {"no": "nb"}
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
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\] ]*\Z")
_STRANGE_LETTER = re.compile("(?![àâæáçéèêëíîïñóôœöùúûüÿä÷])[à-ɏḁ-ỿ]")
"""A small letter of other languages in Latin script that English, French, German and Spanish lack."""

_SAMPLE_CHARACTERS = 2000
"""Characters that are examined, from the first letter on."""
_WORD_SAMPLE_CHARACTERS = 200
"""Characters whose words count; letter statistics decide longer texts by themselves."""
_SAMPLE_PAIRS = 200
"""Lines of two columns that are examined."""

# lingua's statistics.
_MOST_IN_ALL_LENGTHS = 20  # languages whose n-grams of all lengths are loaded
_LONGEST_NGRAM = "congr"  # letters that load the statistics; as many as the longest n-grams have

# Common words: probabilities by rank in a list, and of words that it lacks.
_COMMON_WORDS_FILE = Path(__file__).with_name("common_words.txt")
_RANK_SHIFT = 2.7
_UNLISTED_PROBABILITY = 1e-5

# Which languages are likelier in advance.
_AMBIGUOUS_CHARACTERS = 20  # length up to which a text can be in several languages
_PREFERENCE = 3.0  # factor for languages that the sender of a text reads
_MOST_WRITTEN = ("hi", "ru")  # in scripts whose languages are hard to tell apart in a word

# Languages of the sentences of a text: log of the probability that the next sentence is in another one, and
# the nats of evidence that a sentence gives for each letter and at most, as the confidences are too high.
_LOG_CHANGE = math.log(0.02)
_EVIDENCE_OF_A_LETTER, _MOST_EVIDENCE = 1.0, 30.0

# Neighbours: languages in Latin letters that no checkpoint reads. The evidence for one, in nats, by logistic
# regression on 7,000 texts: for a nat of likeness by trigrams, a common word of the likeliest loaded
# language, another word, a nat of rarity in that language of a word that is common in the neighbour, and for
# a foreign letter, which says less in what may be a name at the beginning.
_NEIGHBOUR_WORDS_FILE = Path(__file__).with_name("neighbour_words.txt")
_BY_LIKENESS, _BY_KNOWN, _BY_UNKNOWN, _BY_RARITY, _BIAS = 0.3, -1.5, -0.4, 0.35, -1.1
_BY_LETTER, _BY_NAME = 6.0, 1.5
_MOST_LIKENESS = 8.0
_LEAST_LIKELY = 1e-9  # probability by trigrams
_RAREST = 8.0  # nats of a word that is no common one


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

    def load(self) -> None:
        """Loads the statistics of languages in Latin letters in pieces of a tenth of a second.

        lingua holds Python's lock while it loads. Between two pieces other threads run.
        """
        languages = list(self._code_of)
        for pair in pairwise(languages):
            detector = self._built(pair)
            for length in range(1, len(_LONGEST_NGRAM) + 1):
                detector.compute_language_confidence_values(_LONGEST_NGRAM[:length])
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
        if detections and (other := self._neighbour(sample, detections[0].language)):
            return [other, *(Detection(language=each.language, confidence=0.0) for each in detections)]
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

    def _neighbour(self, text: str, likeliest: str) -> Detection | None:
        """Returns the language in Latin letters that a text is in if it is none of the detector's.

        Args:
            text: Any text.
            likeliest: The likeliest of the detector's languages.
        """
        ranks = _ranks().get(canonical_code(likeliest))
        words = _words_but_names(text)
        if ranks is None or max(map(len, words), default=0) < 3:
            return None
        num_known = sum(_is_known(word, ranks) for word in words)
        # A capital may begin a name, whose letters say little: São Paulo; Dvořák wrote nine symphonies.
        capitals = int(text[:1].isupper() and not text.isupper())
        has_letter = _STRANGE_LETTER.search(" ".join(words[capitals:])) is not None
        is_sentence = len(words) > 1 and _SENTENCE_END.search(text) is not None
        rarities = self._rarities(words, ranks)
        may_have_letter = is_sentence and _STRANGE_LETTER.search(words[0]) is not None
        # One word is known as one of any language; in several, a name may be the only other one.
        num_common = num_known + may_have_letter if len(words) > 1 else int(self._is_common(words[0]))
        if not has_letter and (num_common == len(words) or not (rarities or is_sentence)):
            return None
        evidence = _BIAS + _BY_KNOWN * num_known + _BY_UNKNOWN * (len(words) - num_known)
        evidence += _BY_LETTER if has_letter else _BY_NAME * may_have_letter
        highest = _BY_RARITY * max(rarities.values(), default=0.0) + _BY_LIKENESS * _MOST_LIKENESS
        if evidence + highest <= 0:
            return None
        likeness = self._likeness(" ".join(words[1:]) if may_have_letter and not has_letter else text)
        scores = {
            code: _BY_LIKENESS * nats + _BY_RARITY * rarities.get(code, 0.0)
            for code, nats in likeness.items()
        }
        language = max(scores, key=scores.__getitem__, default=None)
        if language is None or evidence + scores[language] <= 0:
            return None
        return Detection(language=language, confidence=1 / (1 + math.exp(-evidence - scores[language])))

    def _is_common(self, word: str) -> bool:
        """Returns whether a word is common in any of the detector's languages."""
        listed = (_ranks().get(canonical_code(code), {}) for code in self.codes)
        return any(word in ranks for ranks in listed)

    def _rarities(self, words: Iterable[str], ranks: Mapping[str, int]) -> dict[str, float]:
        """Returns how rare the common words of each neighbour are in a language with these ranks, in nats."""
        known = {_lingua_code(code) for code in self.codes}
        rarities: dict[str, float] = {}
        for word in words:
            rarity = min(math.log(ranks[word] + _RANK_SHIFT), _RAREST) if word in ranks else _RAREST
            for code in _neighbour_words().get(word, ()):
                if code not in known:
                    rarities[code] = rarities.get(code, 0.0) + rarity
        return rarities

    def _likeness(self, text: str) -> dict[str, float]:
        """Returns how much likelier than the detector's languages each neighbour is by trigrams, in nats."""
        known = {_lingua_code(code) for code in self.codes}
        values = {
            value.language.iso_code_639_1.name.lower(): math.log(value.value + _LEAST_LIKELY)
            for value in self._neighbours.compute_language_confidence_values(text)
        }
        best = max((values[code] for code in known if code in values), default=math.log(_LEAST_LIKELY))
        return {
            code: max(-_MOST_LIKENESS, min(value - best, _MOST_LIKENESS))
            for code, value in values.items()
            if code not in known
        }

    @cached_property
    def _neighbours(self) -> "lingua.LanguageDetector":
        """Detects these languages and others by trigrams; loads those one by one, 40 MB in all."""
        import lingua

        neighbours = {code for codes in _neighbour_words().values() for code in codes}
        names = {*neighbours, *map(_lingua_code, self.codes)}
        languages = [each for each in lingua.Language.all() if each.iso_code_639_1.name.lower() in names]
        builder = lingua.LanguageDetectorBuilder
        for pair in pairwise(languages):
            detector = builder.from_languages(*pair).with_low_accuracy_mode().build()
            detector.compute_language_confidence_values(_LONGEST_NGRAM)
        return builder.from_languages(*languages).with_low_accuracy_mode().build()

    @cached_property
    def _code_of(self) -> "dict[lingua.Language, str]":
        import lingua

        codes = {_lingua_code(code): code for code in reversed(self.codes)}
        known = {language.iso_code_639_1.name.lower(): language for language in lingua.Language.all()}
        return {known[lingua_code]: code for lingua_code, code in codes.items() if lingua_code in known}

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


def _lingua_code(code: str) -> str:
    language = canonical_code(code)
    return _LINGUA_CODES.get(language, language)


def reweighted(text: str, confidences: Mapping[str, float]) -> dict[str, float]:
    """Returns the confidences of languages after a look at the words of a text.

    Only the languages with a word list change, and their sum does not.

    Args:
        text: Any text; words after its first 200 characters do not count.
        confidences: By language code; bare codes have word lists.
    """
    listed = {code: ranks for code in confidences if (ranks := _ranks().get(code)) is not None}
    words = _WORD.findall(text[:_WORD_SAMPLE_CHARACTERS].lower().replace("’", "'"))
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


def _words_but_names(text: str) -> list[str]:
    """Returns the first words of a text in small letters, without those after the first with a capital."""
    sample = text[:_WORD_SAMPLE_CHARACTERS].replace("’", "'")
    found = _WORD.findall(sample.lower() if sample.isupper() else sample)
    return [word.lower() for place, word in enumerate(found) if place == 0 or word.islower()]


def _is_known(word: str, ranks: Mapping[str, int]) -> bool:
    return word in ranks or all(part in ranks for part in _parts(word))


def _parts(word: str) -> list[str]:
    """Returns the parts of a compound, and of a word behind an elided one: `l'eau`, `vas-tu`."""
    return re.split(r"-|(?<=')", word)


def _probability(word: str, ranks: Mapping[str, int]) -> float:
    rank = ranks.get(word)
    return _UNLISTED_PROBABILITY if rank is None else 1 / (rank + _RANK_SHIFT)


@cache
def _ranks() -> Mapping[str, Mapping[str, int]]:
    """The rank of each word, by language code; the file has one line a language, frequent words first."""
    lines = (line.split() for line in _COMMON_WORDS_FILE.read_text(encoding="utf-8").splitlines())
    return {code: {word: rank for rank, word in enumerate(words)} for code, *words in lines}


@cache
def _neighbour_words() -> Mapping[str, Sequence[str]]:
    """The languages in Latin letters in which a word is common, by word; the file has one line a language."""
    codes: dict[str, list[str]] = {}
    for line in _NEIGHBOUR_WORDS_FILE.read_text(encoding="utf-8").splitlines():
        code, *words = line.split()
        for word in words:
            codes.setdefault(word, []).append(code)
    return codes
