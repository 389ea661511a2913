"""Common words decide where the letters of a short text do not."""

import pytest

from model.text.common_words import reweighted
from model.text.languages import LanguageDetector

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


def test_greetings_buttons_and_words_are_told_apart() -> None:
    detector = LanguageDetector(list(WORDS))
    cases = [(word, code) for code, words in WORDS.items() for word in words.split("|")]
    wrong = {word for word, code in cases if detector.detect(word)[0].language != code}
    assert wrong == set()


def test_confidences_of_languages_without_a_list_stay() -> None:
    before = {"en": 0.2, "es": 0.4, "pt": 0.4}
    after = reweighted("Hello", before)
    assert after["pt"] == 0.4
    assert after["en"] > 0.5
    assert sum(after.values()) == pytest.approx(1)


@pytest.mark.parametrize("text", ["", "qwrtz", "42"])
def test_texts_without_common_words_keep_their_confidences(text: str) -> None:
    assert reweighted(text, {"en": 0.3, "fr": 0.7}) == {"en": 0.3, "fr": 0.7}
