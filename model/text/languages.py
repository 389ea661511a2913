"""① Languages: codes, names, and detection among the languages of the loaded checkpoints."""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING

from model.text.common_words import reweighted
from model.text.kept_strings import without_kept_strings
from model.text.language_codes import SHORT_CODES
from model.text.normalisation import clean

if TYPE_CHECKING:
    import lingua

logger = logging.getLogger(__name__)

LANGUAGE_NAMES = {
    "ace": "Acehnese", "acm": "Mesopotamian Arabic", "acq": "Ta'izzi-Adeni Arabic", "aeb": "Tunisian Arabic",
    "af": "Afrikaans", "ajp": "South Levantine Arabic", "ak": "Akan", "am": "Amharic",
    "apc": "North Levantine Arabic", "ar": "Arabic", "ars": "Najdi Arabic", "ary": "Moroccan Arabic",
    "arz": "Egyptian Arabic", "as": "Assamese", "ast": "Asturian", "awa": "Awadhi", "ay": "Aymara",
    "az": "Azerbaijani", "azb": "South Azerbaijani", "ba": "Bashkir", "ban": "Balinese", "be": "Belarusian",
    "bem": "Bemba", "bg": "Bulgarian", "bho": "Bhojpuri", "bjn": "Banjar", "bm": "Bambara", "bn": "Bengali",
    "bo": "Tibetan", "br": "Breton", "bs": "Bosnian", "bug": "Buginese", "ca": "Catalan", "ceb": "Cebuano",
    "cjk": "Chokwe", "ckb": "Central Kurdish", "co": "Corsican", "crh": "Crimean Tatar", "cs": "Czech",
    "cv": "Chuvash", "cy": "Welsh", "da": "Danish", "de": "German", "dik": "Southwestern Dinka",
    "dyu": "Dyula", "dz": "Dzongkha", "ee": "Ewe", "el": "Greek", "en": "English", "eo": "Esperanto",
    "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "ff": "Fulah", "fi": "Finnish",
    "fil": "Filipino", "fj": "Fijian", "fo": "Faroese", "fon": "Fon", "fr": "French", "fur": "Friulian",
    "fy": "Western Frisian", "ga": "Irish", "gd": "Scottish Gaelic", "gl": "Galician", "gn": "Guarani",
    "gu": "Gujarati", "gv": "Manx", "ha": "Hausa", "haw": "Hawaiian", "he": "Hebrew", "hi": "Hindi",
    "hne": "Chhattisgarhi", "hr": "Croatian", "ht": "Haitian Creole", "hu": "Hungarian", "hy": "Armenian",
    "ia": "Interlingua", "id": "Indonesian", "ig": "Igbo", "ilo": "Ilocano", "io": "Ido", "is": "Icelandic",
    "it": "Italian", "ja": "Japanese", "jv": "Javanese", "ka": "Georgian", "kab": "Kabyle", "kac": "Kachin",
    "kam": "Kamba", "kbp": "Kabiyè", "kea": "Kabuverdianu", "kg": "Kongo", "ki": "Kikuyu", "kk": "Kazakh",
    "km": "Khmer", "kmb": "Kimbundu", "kn": "Kannada", "ko": "Korean", "kr": "Kanuri", "ks": "Kashmiri",
    "ku": "Kurdish", "ky": "Kyrgyz", "la": "Latin", "lb": "Luxembourgish", "lg": "Ganda", "li": "Limburgish",
    "lij": "Ligurian", "lmo": "Lombard", "ln": "Lingala", "lo": "Lao", "lt": "Lithuanian",
    "ltg": "Latgalian", "lua": "Luba-Lulua", "luo": "Luo", "lus": "Mizo", "lv": "Latvian",
    "lzh": "Literary Chinese", "mag": "Magahi", "mai": "Maithili", "mg": "Malagasy", "mi": "Maori",
    "min": "Minangkabau", "mk": "Macedonian", "ml": "Malayalam", "mn": "Mongolian", "mni": "Manipuri",
    "mos": "Mossi", "mr": "Marathi", "ms": "Malay", "mt": "Maltese", "my": "Burmese",
    "nb": "Norwegian Bokmål", "ne": "Nepali", "nl": "Dutch", "nn": "Norwegian Nynorsk", "no": "Norwegian",
    "nso": "Northern Sotho", "nus": "Nuer", "ny": "Nyanja", "oc": "Occitan", "om": "Oromo", "or": "Odia",
    "os": "Ossetian", "pa": "Punjabi", "pag": "Pangasinan", "pap": "Papiamento", "pl": "Polish",
    "prs": "Dari", "ps": "Pashto", "pt": "Portuguese", "qu": "Quechua", "rm": "Romansh", "rn": "Rundi",
    "ro": "Romanian", "ru": "Russian", "rw": "Kinyarwanda", "sa": "Sanskrit", "sat": "Santali",
    "sc": "Sardinian", "scn": "Sicilian", "sd": "Sindhi", "se": "Northern Sami", "sg": "Sango",
    "sh": "Serbo-Croatian", "shn": "Shan", "si": "Sinhala", "sk": "Slovak", "sl": "Slovenian",
    "sm": "Samoan", "sn": "Shona", "so": "Somali", "sq": "Albanian", "sr": "Serbian", "ss": "Swati",
    "st": "Southern Sotho", "su": "Sundanese", "sv": "Swedish", "sw": "Swahili", "szl": "Silesian",
    "ta": "Tamil", "taq": "Tamasheq", "te": "Telugu", "tg": "Tajik", "th": "Thai", "ti": "Tigrinya",
    "tk": "Turkmen", "tl": "Tagalog", "tn": "Tswana", "to": "Tongan", "tpi": "Tok Pisin", "tr": "Turkish",
    "ts": "Tsonga", "tt": "Tatar", "tum": "Tumbuka", "tw": "Twi", "ty": "Tahitian",
    "tzm": "Central Atlas Tamazight", "ug": "Uyghur", "uk": "Ukrainian", "umb": "Umbundu", "ur": "Urdu",
    "uz": "Uzbek", "ve": "Venda", "vec": "Venetian", "vi": "Vietnamese", "war": "Waray", "wo": "Wolof",
    "wuu": "Wu Chinese", "xh": "Xhosa", "yi": "Yiddish", "yo": "Yoruba", "yue": "Cantonese", "zh": "Chinese",
    "zu": "Zulu",
}  # fmt: skip
"""English names by canonical code."""

_SCRIPTS = {
    "Arab": "Arabic", "Beng": "Bengali", "Cyrl": "Cyrillic", "Deva": "Devanagari", "Grek": "Greek",
    "Hant": "traditional", "Hebr": "Hebrew", "Latn": "Latin", "Mtei": "Meitei", "Tfng": "Tifinagh",
}  # fmt: skip
_SUBTAG_SEPARATOR = re.compile(r"[-_.@]")
_UNSPACED_SENTENCES = frozenset({"zh", "ja", "yue", "wuu", "lzh"})
_UNSPACED_WORDS = _UNSPACED_SENTENCES | {"th", "lo", "km", "my"}

_LINGUA_CODES = {"no": "nb"}
_OWN_SCRIPTS = {
    "am": "\u1200-\u139f", "bo": "\u0f00-\u0fff", "dv": "\u0780-\u07bf", "km": "\u1780-\u17ff",
    "kn": "\u0c80-\u0cff", "lo": "\u0e80-\u0eff", "ml": "\u0d00-\u0d7f", "my": "\u1000-\u109f",
    "or": "\u0b00-\u0b7f", "sat": "\u1c50-\u1c7f", "si": "\u0d80-\u0dff",
}  # fmt: skip
"""Languages without statistics that have, or lead, a script of their own."""
_ANY_OWN_SCRIPT = re.compile(f"[{''.join(_OWN_SCRIPTS.values())}]")
_OWN_SCRIPT = re.compile("|".join(f"(?P<{code}>[{letters}])" for code, letters in _OWN_SCRIPTS.items()))
_LETTER = re.compile(r"[^\W\d_]")
_SYLLABLE = re.compile(r"[^\W\d_]{2}")
_FEW = 20  # languages whose n-grams of all lengths are loaded
_TRADITIONAL = dict.fromkeys(("zt", "zh-tw", "zh-hk", "zh-mo"), "zh-hant")
_SAMPLE = 2000
_LETTERS = "congr"  # as many as the longest n-grams have
"""Characters that are examined, from the first letter on."""


@lru_cache(maxsize=1024)
def canonical_code(code: str) -> str:
    """Returns the bare language code: `EN`, `en-GB` → `en`; `zh-Hans`, `cmn` → `zh`; `fra` → `fr`."""
    language = _SUBTAG_SEPARATOR.split(code.strip(), maxsplit=1)[0].lower()
    return SHORT_CODES.get(language, language)


def known_code(code: str, known: Iterable[str]) -> str | None:
    """Returns the known code that a user's code means: the same code in any spelling, else its bare language.

    If a language is known with one region or script only, as `pt-BR`, the bare code means that one.

    Args:
        code: A user's code: `EN`, `en_US`, `pt-br`.
        known: The known codes.

    Returns:
        One of `known`, or None.
    """
    codes = tuple(known)
    return code if code in codes else _known_code(code, codes)


@lru_cache(maxsize=1024)
def _known_code(code: str, codes: tuple[str, ...]) -> str | None:
    """Finds a code that is spelt otherwise; kept, as clients repeat theirs and 200 languages take a while."""
    spelt = {_folded(each): each for each in reversed(codes)}
    bare = canonical_code(code)
    found = spelt.get(_folded(code)) or spelt.get(bare)
    regions = [each for each in dict.fromkeys(codes) if canonical_code(each) == bare]
    is_bare = not _SUBTAG_SEPARATOR.search(code)
    return found or (regions[0] if is_bare and len(regions) == 1 else None)


def _folded(code: str) -> str:
    """Returns a code with its subtags in lower case, and the shortest code of the language."""
    language, *details = code.strip().lower().replace("_", "-").split("-")
    folded = "-".join([SHORT_CODES.get(language, language), *details])
    return _TRADITIONAL.get(folded, folded)


def has_unspaced_words(code: str) -> bool:
    """Returns whether a language writes words without spaces between them."""
    return canonical_code(code) in _UNSPACED_WORDS


def has_unspaced_sentences(code: str) -> bool:
    """Returns whether a language writes sentences without spaces between them."""
    return canonical_code(code) in _UNSPACED_SENTENCES


def gains_spaces(source: str, target: str) -> bool:
    """Returns whether the target language puts spaces between sentences, and the source language does not."""
    return has_unspaced_sentences(source) and not has_unspaced_sentences(target)


def language_name(code: str) -> str:
    """Returns the English name of a language, with its script if need be, or the code if it is unknown."""
    name = LANGUAGE_NAMES.get(canonical_code(code), code)
    script = next((_SCRIPTS[part] for part in code.split("-")[1:] if part in _SCRIPTS), None)
    return f"{name} ({script})" if script else name


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
            for length in range(1, len(_LETTERS) + 1):
                detector.compute_language_confidence_values(_LETTERS[:length])
        self.is_loaded = True

    def detect(self, text: str) -> list[Detection]:
        """Returns all the languages, the most probable first.

        For a text without letters every confidence is 0 and the order is that of preference. For a text in
        letters of other languages only, the likeliest of those precedes, unless a language without statistics
        and without a script of its own might have these letters. A detector of one language is certain about
        any text with letters, except those of such a script.
        """
        text = without_kept_strings(text[: 2 * _SAMPLE]) + text[2 * _SAMPLE :]
        letter = _LETTER.search(text)
        sample = clean(text[letter.start() :][:_SAMPLE]) if letter else ""
        own = _language_of_script(sample)
        confidences = self._confidences(sample) if letter and not own else {}
        detections = [Detection(language=code, confidence=confidences.get(code, 0.0)) for code in self.codes]
        if own:
            found = next((code for code in self.codes if canonical_code(code) == own), own)
            others = [detection for detection in detections if detection.language != found]
            return [Detection(language=found, confidence=1.0), *others]
        if self._knows_scripts and not any(confidences.values()) and _SYLLABLE.search(sample):
            return [_foreign_language(sample), *detections]
        return sorted(detections, key=lambda detection: -detection.confidence)

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

        codes = {_lingua_code(code): code for code in reversed(self.codes)}
        known = {language.iso_code_639_1.name.lower(): language for language in lingua.Language.all()}
        return {known[lingua_code]: code for lingua_code, code in codes.items() if lingua_code in known}

    @cached_property
    def _knows_scripts(self) -> bool:
        """Whether a text without a known letter is in none of the languages."""
        with_statistics = set(self._code_of.values())
        others = (canonical_code(code) for code in self.codes if code not in with_statistics)
        return bool(self.codes) and all(code in _OWN_SCRIPTS for code in others)

    @cached_property
    def _lingua(self) -> "lingua.LanguageDetector":
        return self._built(self._code_of)

    def _built(self, languages: "Iterable[lingua.Language]") -> "lingua.LanguageDetector":
        import lingua

        builder = lingua.LanguageDetectorBuilder.from_languages(*languages)
        return (builder if len(self._code_of) <= _FEW else builder.with_low_accuracy_mode()).build()


@cache
def has_statistics() -> bool:
    """Returns whether lingua is installed; its statistics take 96 MB, which a borrowed machine may lack."""
    if find_spec("lingua") is None:
        logger.warning("the package lingua-language-detector is missing: languages are not checked")
        return False
    return True


def are_exchanged(samples: tuple[str, str], languages: tuple[str, str]) -> bool:
    """Returns whether two columns of text are clearly in each other's language; False without statistics."""
    if not has_statistics():
        return False
    detector = LanguageDetector(languages)
    guesses = [detector.detect(sample)[0] for sample in samples]
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


def _foreign_language(text: str) -> Detection:
    """Returns the likeliest of all languages that have statistics; loads those of one script, some 20 MB."""
    likeliest = _all_languages().compute_language_confidence_values(text)[0]
    return Detection(language=likeliest.language.iso_code_639_1.name.lower(), confidence=likeliest.value)


@cache
def _all_languages() -> "lingua.LanguageDetector":
    import lingua

    return lingua.LanguageDetectorBuilder.from_all_languages().with_low_accuracy_mode().build()


def _lingua_code(code: str) -> str:
    language = canonical_code(code)
    return _LINGUA_CODES.get(language, language)
