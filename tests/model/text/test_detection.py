"""The language of texts and of the sentences in them."""

import time
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.text.common_words import reweighted
from model.text.detection import Detection, LanguageDetector, usable_language
from model.text.neighbour_languages import neighbour_words

WORDS = {
    "en": "Hello|Hi|Good morning|Goodbye|Thanks|Please|Sorry|Yes|Cancel|Save|Delete|Sign in|Log out|Send"
    "|Download|Password|Continue|dog|apple|sister|bread|Monday",
    "fr": "Bonjour|Salut|Merci|Au revoir|S'il vous plaît|Oui|Annuler|Enregistrer|Se connecter|Coller"
    "|Imprimer|chien|pain|ami|sœur|lundi|Bon appétit",
    "de": "Hallo|Guten Tag|Tschüss|Danke|Bitte|Ja|Nein|Abbrechen|Speichern|Löschen|Anmelden|Hund|Brot|Januar"
    "|rot|Prost|E-Mail-Adresse",
    "es": "Hola|Buenos días|Adiós|Gracias|Por favor|Sí|Cancelar|Guardar|Borrar|Ajustes|Nombre|pan|ayer|perro"
    "|Salud|lunes",
    "zh": "你好|谢谢|再见|取消|保存",
}


@pytest.fixture(scope="module")
def detector() -> LanguageDetector:
    return LanguageDetector(["fr", "en"])


@pytest.fixture(scope="module")
def of_five() -> LanguageDetector:
    return LanguageDetector(["en", "fr", "de", "es", "zh"])


def by_text(table: dict[str, str]) -> dict[str, str]:
    """The language of each text of a table."""
    return {text: code for code, texts in table.items() for text in texts.split("|")}


def detected(detector: LanguageDetector, texts: Iterable[str]) -> dict[str, str]:
    """The likeliest language of each text."""
    return {text: detector.detect(text)[0].language for text in texts}


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
    languages = {
        "The museum opens again on Monday.": "en",
        "Das Museum öffnet am Montag wieder seine Türen.": "de",
        "Музей снова откроется в понедельник.": "ru",
        "博物馆星期一重新开放。": "zh",
    }
    began = time.perf_counter()
    assert detected(detector, languages) == languages
    assert time.perf_counter() - began < 10


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Good morning.", "en"),
        ("Where is the station?", "en"),
        ("Merci.", "fr"),
        ("\ud800Je ne sais pas.", "fr"),
        ("Merci user_name@example.com", "fr"),
        ("Bonjour {first_name} !", "fr"),
        ("Merci https://example.com/welcome", "fr"),
    ],
)
def test_short_texts_are_told_apart_whatever_strings_to_keep_they_have(
    detector: LanguageDetector, text: str, language: str
) -> None:
    best, other = detector.detect(text)
    assert best.language == language
    assert 1 >= best.confidence > 0.5 > other.confidence
    assert best.confidence + other.confidence == pytest.approx(1)


FOREIGN = {
    "it": "Buongiorno, come stai oggi?|il mio gatto dorme sempre sul divano di casa|buongiorno"
    "|NON CAPISCO NIENTE",
    "pt": "Bom dia, você está bem hoje?|Muito obrigado!",
    "nl": "Goedemorgen, hoe gaat het met u vandaag?|Dank je wel!",
    "sv": "God morgon, hur mår du i dag?|Tack!",
    "pl": "Nie rozumiem, co masz na myśli.|Dziękuję bardzo.",
    "tr": "Bir kahve istiyorum, lütfen.|Günaydın, nasılsın?",
    "fi": "Veljeni työskentelee pankissa.|Hyvää huomenta!",
    "cs": "Kolik stojí tato kniha, prosím? Děkuji.|Čekej chvíli.",
    "vi": "Cảm ơn bạn rất nhiều.",
    "hu": "Köszönöm szépen.",
    "ro": "Unde este gara?",
    "ca": "Moltes gràcies.",
    "da": "Mødet er aflyst.",
    "ru": "Привет",
    "sr": "Здраво, како си?",
}
# Words and names that other languages have as well, or that stand in other letters.
OWN = {
    "es": "Se graduó de Harvard.|pelo|São Paulo|Škoda Octavia",
    "en": "Larry Hagman is an actor in Dallas, Texas.|head|Slovak|Dvořák wrote nine symphonies."
    "|Erdoğan met Orbán in Ankara on Monday.|Erdoğan met Orbán.|Milošević died.",
    "de": "Kennst du Toms Blutgruppe?|Xylophon Fuchs Dingsda|Modrić spielt.",
    "fr": "Promettez-vous d'y aller ?|bol|é 🙂",
}


def test_a_language_that_is_not_loaded_is_named(of_five: LanguageDetector) -> None:
    foreign, own = by_text(FOREIGN), by_text(OWN)
    assert detected(of_five, foreign) == foreign
    assert detected(of_five, own) == own
    assert {each.confidence for text in foreign for each in of_five.detect(text)[1:]} == {0.0}


def test_texts_in_known_words_load_no_statistics_of_other_languages() -> None:
    detector = LanguageDetector(["en", "fr", "de", "es", "zh"])
    for text in (
        "Where is the station?",
        "Où est la gare ?",
        "Wo ist der Bahnhof?",
        "¿Dónde está la estación?",
    ):
        detector.detect(text)
    assert "_statistics" not in vars(detector._neighbours)
    detector.detect("Dove si trova la stazione?")
    assert "_statistics" in vars(detector._neighbours)


def test_a_loaded_language_is_no_foreign_one() -> None:
    detector = LanguageDetector(["en", "it"])
    assert detector.detect("Dove si trova la stazione?")[0].language == "it"
    assert detector.detect("Onde fica a estação?")[0].language == "pt"


def test_where_all_languages_are_loaded_none_is_foreign() -> None:
    neighbours = {code for codes in neighbour_words().values() for code in codes}
    detector = LanguageDetector(["en", *sorted(neighbours)])
    assert {each.language for each in detector.detect("Wrought throughput")} == set(detector.codes)


CHAT_CODE_AND_TITLES = """\
git commit rebase squash fixup
Git commit, rebase, squash.
gonna wanna lemme dunno
wat u doin m8 lol brb
Pls snd me teh docs asap
omg lol rofl wtf
sudo apt install vim tmux htop
idk imo tbh fr fr
lolwut dat meme tho
yeet skibidi rizz gyatt
Anna Maria Kowalski Smith
Wireless Bluetooth Earbuds Noise Cancelling
Taste. Crunch. Smile.
slt cv tkt jtm bcp
Housse silicone antichoc iPhone
moin digga alter krass
Akku Bohrschrauber Set Koffer
Geiz ist geil
xfa tqm bss amig
Funda silicona antigolpes transparente
Este dato está obsoleto.
nihao wo jiao Li Wei
哈哈哈 omg lol rofl
"""


def test_chat_code_words_and_titles_are_in_a_language_that_is_loaded(of_five: LanguageDetector) -> None:
    found = detected(of_five, CHAT_CODE_AND_TITLES.splitlines())
    assert {text: code for text, code in found.items() if code not in of_five.codes} == {}


@pytest.mark.parametrize("text", ["", " \n", "12345 🙂?!", "α = β"])
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


JAPANESE = {
    "ja": "私は学生です|日本語を勉強する学生|本日休業、営業再開は明日|日本語能力試験の申込|お茶の木"
    "|東京タワー",
    "zh": "鮮の食品|他说ね很好|我喜欢喝茶。|我们昨天在银座の餐厅吃了晚饭|奈雪の茶|我の朋友の家在北京",
    "en": "Thanks ありがとう",
}


def test_japanese_with_many_han_is_not_taken_for_chinese() -> None:
    languages = by_text(JAPANESE)
    assert detected(LanguageDetector(["en", "zh"]), languages) == languages


def test_kana_are_not_taken_for_japanese_where_another_language_may_have_them() -> None:
    assert LanguageDetector(["en", "qqq"]).detect("私は学生です")[0].language != "ja"


def test_languages_keep_the_codes_they_were_given() -> None:
    languages = {"你好吗？": "zh-Hans", "How are you?": "en-GB", "Hvordan går det?": "no"}
    assert detected(LanguageDetector(["zh-Hans", "en-GB", "no"]), languages) == languages


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
    assert {detection.language for detection in detections} >= {"en", "fr"}
    assert all(0 <= detection.confidence <= 1 for detection in detections)
    assert detections[0].confidence >= detections[1].confidence


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


def test_greetings_buttons_and_words_are_told_apart(of_five: LanguageDetector) -> None:
    languages = by_text(WORDS)
    assert detected(of_five, languages) == languages


def test_confidences_of_languages_without_a_list_stay() -> None:
    before = {"en": 0.2, "es": 0.4, "pt": 0.4}
    after = reweighted("Hello", before)
    assert after["pt"] == 0.4
    assert after["en"] > 0.5
    assert sum(after.values()) == pytest.approx(1)


@pytest.mark.parametrize("text", ["", "qwrtz", "42"])
def test_texts_without_common_words_keep_their_confidences(text: str) -> None:
    assert reweighted(text, {"en": 0.3, "fr": 0.7}) == {"en": 0.3, "fr": 0.7}


def test_the_sentences_of_a_mixed_text_are_told_apart() -> None:
    detector = LanguageDetector(["en", "fr", "de"])
    mixed = {
        "Where did you put the keys?": "en",
        "OK.": "en",
        "Je les ai laissées sur la table.": "fr",
        "42": "fr",
        "Merci.": "fr",
        "Ich habe sie dort nicht gefunden.": "de",
        "Dann suche ich eben weiter. " * 40: "de",
    }
    found = detector.detect_each(list(mixed), "en", ["fr", "de"])
    assert dict(zip(mixed, found, strict=True)) == mixed
    assert detector.detect_each(list(mixed), "en", []) == ["en"] * len(mixed)


@pytest.mark.parametrize(("reader", "language"), [((), "en"), (("fr-CA", "de"), "de"), (("en",), "en")])
def test_a_short_text_of_several_languages_is_in_one_that_its_sender_reads(
    reader: tuple[str, ...], language: str
) -> None:
    detector = LanguageDetector(["en", "fr", "de"])
    assert detector.detect("Gift", reader)[0].language == language
    assert detector.detect("Where is the station?", reader)[0].language == "en"
    assert sum(found.confidence for found in detector.detect("Gift", reader)) == pytest.approx(1)
