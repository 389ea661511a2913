import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.text.languages import (
    LANGUAGE_NAMES,
    Detection,
    LanguageDetector,
    canonical_code,
    gains_spaces,
    has_unspaced_sentences,
    has_unspaced_words,
    known_code,
    language_name,
    usable_language,
)


@pytest.fixture(scope="module")
def detector() -> LanguageDetector:
    return LanguageDetector(["fr", "en"])


@pytest.mark.parametrize(
    ("code", "name"),
    [("fr", "French"), ("EN-us", "English"), ("zh-Hans", "Chinese"), ("qqq", "qqq"), ("", "")],
)
def test_a_language_is_named_in_english(code: str, name: str) -> None:
    assert language_name(code) == name


@pytest.mark.parametrize(("certainty", "chosen"), [(0.9, "de"), (0.7, "de"), (0.6, "fr"), (0.4, "fr")])
def test_what_is_of_use_is_preferred_unless_another_language_is_clearly_meant(
    certainty: float, chosen: str
) -> None:
    ranked = [
        Detection(language="de", confidence=certainty),
        Detection(language="fr", confidence=1 - certainty),
    ]
    ranked.sort(key=lambda found: -found.confidence)
    assert usable_language(ranked, lambda code: code == "fr").language == chosen
    assert usable_language(ranked, lambda code: False) == ranked[0]


def test_many_languages_are_told_apart_by_less() -> None:
    more = ("it", "pt", "nl", "pl", "cs", "uk", "bg", "el", "tr", "fi", "sv", "da", "hu", "ro", "ar", "ja")
    codes = ["en", "fr", "de", "es", "ru", "zh", *more]
    detector = LanguageDetector(codes)
    began = time.perf_counter()
    for text, language in (
        ("The museum opens again on Monday.", "en"),
        ("Das Museum öffnet am Montag wieder seine Türen.", "de"),
        ("Музей снова откроется в понедельник.", "ru"),
        ("博物馆星期一重新开放。", "zh"),
    ):
        assert detector.detect(text)[0].language == language
    assert time.perf_counter() - began < 10


def test_the_table_of_names_is_canonical() -> None:
    assert len(LANGUAGE_NAMES) >= 100
    assert all(canonical_code(code) == code for code in LANGUAGE_NAMES)
    assert len(set(LANGUAGE_NAMES.values())) == len(LANGUAGE_NAMES)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Good morning.", "en"),
        ("Bonjour.", "fr"),
        ("Thank you!", "en"),
        ("Merci.", "fr"),
        ("Where is the station?", "en"),
        ("Où est la gare ?", "fr"),
        ("\ud800Je ne sais pas.", "fr"),
    ],
)
def test_short_texts_are_told_apart(detector: LanguageDetector, text: str, language: str) -> None:
    best, other = detector.detect(text)
    assert best.language == language
    assert 1 >= best.confidence > 0.5 > other.confidence
    assert best.confidence + other.confidence == pytest.approx(1)


@pytest.mark.parametrize("text", ["", "  \n", "12345", "🙂", "?!", "α = β"])
def test_what_nothing_tells_apart_has_no_confidence(detector: LanguageDetector, text: str) -> None:
    assert detector.detect(text) == [
        Detection(language="fr", confidence=0.0),
        Detection(language="en", confidence=0.0),
    ]


@pytest.mark.parametrize("preamble", ["2024-01-01;37;91\n" * 130, "\n" * 2000, "-" * 3000, "🙂" * 2500])
def test_what_has_no_letters_in_front_of_a_text_does_not_hide_it(
    detector: LanguageDetector, preamble: str
) -> None:
    best, _ = detector.detect(preamble + "Bonjour tout le monde, comment allez-vous ?")
    assert (best.language, best.confidence > 0.5) == ("fr", True)


def test_letters_of_other_languages_are_detected_as_such(detector: LanguageDetector) -> None:
    foreign, *known = detector.detect("こんにちは")
    assert (foreign.language, foreign.confidence > 0.9) == ("ja", True)
    assert [found.confidence for found in known] == [0.0, 0.0]


def test_languages_keep_the_codes_they_were_given() -> None:
    detector = LanguageDetector(["zh-Hans", "en-GB", "no"])
    assert [
        detector.detect(text)[0].language for text in ("你好吗？", "How are you?", "Hvordan går det?")
    ] == [
        "zh-Hans",
        "en-GB",
        "no",
    ]


def test_a_single_language_is_certain_where_there_are_letters() -> None:
    assert LanguageDetector(["en"]).detect("hello") == [Detection(language="en", confidence=1.0)]
    assert LanguageDetector(["en"]).detect("42") == [Detection(language="en", confidence=0.0)]


@pytest.mark.parametrize("codes", [[], ["qqq"]])
def test_languages_without_statistics_are_never_detected(codes: list[str]) -> None:
    assert LanguageDetector(codes).detect("hello") == [
        Detection(language=code, confidence=0.0) for code in codes
    ]


@given(text=st.text(st.characters()))
def test_any_text_has_an_answer(detector: LanguageDetector, text: str) -> None:
    detections = detector.detect(text)
    # A text in letters that only another language has may name that language as well.
    assert {detection.language for detection in detections} >= {"en", "fr"}
    assert all(0 <= detection.confidence <= 1 for detection in detections)
    assert detections[0].confidence >= detections[1].confidence


def test_text_needs_no_torch() -> None:
    program = (
        "import sys, model.text.document, model.text.languages, model.text.tokenizer; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=300).returncode == 0


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("en", "en"),
        ("EN", "en"),
        ("en-GB", "en"),
        ("zh-Hans", "zh"),
        ("zh_CN", "zh"),
        ("pt-br", "pt"),
        (" fr ", "fr"),
        ("de_DE.UTF-8", "de"),
        ("iw", "he"),
        ("cmn", "zh"),
        ("auto", "auto"),
        ("", ""),
    ],
)
def test_a_code_is_reduced_to_its_language(code: str, expected: str) -> None:
    assert canonical_code(code) == expected


@pytest.mark.parametrize(
    ("code", "words", "sentences"),
    [
        ("zh-Hans", True, True),
        ("cmn", True, True),
        ("JA", True, True),
        ("th", True, False),
        ("ko", False, False),
    ],
)
def test_spaces_between_words_and_between_sentences(code: str, words: bool, sentences: bool) -> None:
    assert (has_unspaced_words(code), has_unspaced_sentences(code)) == (words, sentences)


def test_spaces_are_gained_between_a_language_without_and_one_with_them() -> None:
    languages = ("zh", "ja", "en-GB")
    assert [(s, t) for s in languages for t in languages if gains_spaces(s, t)] == [
        ("zh", "en-GB"),
        ("ja", "en-GB"),
    ]


@pytest.mark.parametrize(
    ("code", "known", "meant"),
    [
        ("EN", "en fr", "en"),
        ("en-GB", "en fr", "en"),
        ("pt-br", "en pt-BR pt", "pt-BR"),
        ("PT_BR", "en pt-BR pt", "pt-BR"),
        ("pt-PT", "en pt-BR pt", "pt"),
        ("pt", "en pt-BR", "pt-BR"),
        ("PT", "pt-BR pt-PT", None),
        ("pt-PT", "en pt-BR", None),
        ("ZH-HANS", "zh-Hans", "zh-Hans"),
        ("cmn", "zh-Hans", "zh-Hans"),
        ("xx", "en fr", None),
        ("", "en fr", None),
        ("fra_Latn", "en fr", "fr"),
        ("zho_Hant", "zh zh-Hant", "zh-Hant"),
        ("zh-TW", "zh zh-Hant", "zh-Hant"),
        ("zh-TW", "en zh", "zh"),
        ("zt", "zh zh-Hant", "zh-Hant"),
        ("zt", "en zh", None),
        ("zho_Hans", "zh zh-Hant", "zh"),
        ("pes", "fa", "fa"),
    ],
)
def test_a_code_means_a_known_one(code: str, known: str, meant: str | None) -> None:
    assert known_code(code, known.split()) == meant


@pytest.mark.parametrize(
    "text", ["Merci user_name@example.com", "Bonjour {first_name} !", "Merci https://example.com/welcome"]
)
def test_kept_strings_say_nothing_of_the_language(detector: LanguageDetector, text: str) -> None:
    assert detector.detect(text)[0].language == "fr"


KHMER = "សួស្តី អ្នកសុខសប្បាយទេ"


def test_a_language_without_statistics_is_known_by_its_script() -> None:
    for codes, confidences in (
        (["en", "km"], [1.0, 0.0]),
        (["en", "fr"], [1.0, 0.0, 0.0]),
        (["en"], [1.0, 0.0]),
    ):
        found = LanguageDetector(codes).detect(KHMER)
        assert found[0].language == "km"
        assert [each.confidence for each in found] == confidences
    assert LanguageDetector(["en", "fr"]).detect(f"The word {KHMER[:6]} is a greeting")[0].language == "en"


def test_a_language_known_by_its_script_keeps_foreign_texts_out() -> None:
    assert LanguageDetector(["en", "fr", "km"]).detect("สวัสดีครับ")[0].language == "th"
    assert LanguageDetector(["en", "fr", "br"]).detect("สวัสดีครับ")[0].language == "en"
