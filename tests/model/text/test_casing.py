import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.text.casing import as_read, is_capitalised_word, is_in_capitals, lower, upper


@pytest.mark.parametrize(
    "sentence",
    [
        "NO PARKING",
        "FERMÉ LE LUNDI",
        "WO IST DIE STRAßE?",
        "¿DÓNDE ESTÁ?",
        "ЗАКРЫТО",
        "CALL 112 NOW!!",
        "EXIT",
        "LA 1ª PLANTA ESTÁ CERRADA",
        "EL Nº 1 DEL MUNDO",
    ],
)
def test_a_sentence_in_capitals_is_one(sentence: str) -> None:
    assert is_in_capitals(sentence)


CASELESS = ["我爱你", "我在IBM工作。", "他买了一台TV和DVD，很大。", "أحبك", "شركة IBM و NASA"]


@pytest.mark.parametrize(
    "sentence",
    [*CASELESS, "", "BMW", "USA 2026", "I", "A B C", "No parking", "USA is big", "B2B", "12:30"],
)
def test_an_abbreviation_is_none_nor_is_a_script_without_capitals(sentence: str) -> None:
    assert not is_in_capitals(sentence)


@pytest.mark.parametrize(
    ("language", "sentence", "read"),
    [
        ("en", "NO PARKING", "No parking"),
        ("es", "¿DÓNDE ESTÁ EL BAÑO?", "¿Dónde está el baño?"),
        ("en", "«2 ROOMS LEFT»", "«2 Rooms left»"),
        ("en", "EXIT", "exit"),
        ("es", "¡HOLA!", "¡hola!"),
        ("de", "AUSGANG", "Ausgang"),
        ("tr", "KAPI AÇIK DEĞİL", "Kapı açık değil"),
        ("tr", "İSTANBUL GÜZEL", "İstanbul güzel"),
        ("en", "İSTANBUL IS OPEN", "İstanbul is open"),
    ],
)
def test_it_is_read_as_an_ordinary_one(language: str, sentence: str, read: str) -> None:
    assert as_read(sentence, language) == read


@given(st.text())
def test_any_sentence_in_capitals_keeps_its_letters(text: str) -> None:
    if is_in_capitals(text.upper()):
        assert as_read(text.upper(), "en").upper() == text.upper().lower().upper()
    assert not (is_capitalised_word(text) and not text[1:].islower())


def test_turkish_has_two_letters_i() -> None:
    assert lower("KAPI AÇIK DEĞİL", "tr") == "kapı açık değil"
    assert upper("Kapı açık değil", "tr") == "KAPI AÇIK DEĞİL"
