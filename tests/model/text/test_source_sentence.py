"""Sentences as the network reads them, and their translations as they are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.text.glossary import Glossary
from model.text.normalisation import clean
from model.text.source_sentence import SourceSentence, as_read, is_capitalised_word, is_in_capitals
from model.text.tags import without_tags
from model.text.tokenizer import Tokenizer, TokenizerSettings

BOS, EOS = 1, 2


class Pieces:
    """Knows some words as one piece, in any place; spells all others by letters. Its tag is ⟨1⟩."""

    settings = TokenizerSettings()

    def __init__(self, *words: str) -> None:
        self._words = words

    def encode(
        self, text: str, *, source_language: str = "", target_language: str = "", is_clean: bool = False
    ) -> list[int]:
        pieces = [text] if text in self._words else list(text)
        return [BOS, *(sum(map(ord, piece)) for piece in pieces), EOS]


def read(sentence: str, language: str, *words: str) -> SourceSentence:
    pieces = Pieces(*words)
    found = SourceSentence.read(sentence, (language, "fr"), pieces)  # type: ignore[arg-type]
    if found.casing != "capitals" and not found.kept:
        assert (found.ids == tuple(pieces.encode(clean(sentence)))) == (found.casing == "unchanged")
    return found


@pytest.mark.parametrize(
    ("sentence", "language", "words"),
    [
        ("Exit", "en", ["exit"]),
        ("Été", "fr", ["été"]),
        ("Abbrechen", "de", ["abbrechen"]),
        ("Izgara", "tr", ["ızgara"]),
        ("Can\u00adcel", "en", ["cancel"]),
        ("Socie\u0301te\u0301", "fr", ["société"]),
    ],
)
def test_a_word_that_is_a_piece_only_in_small_letters_is_read_in_them(
    sentence: str, language: str, words: list[str]
) -> None:
    assert read(sentence, language, *words).casing == "capital_initial"


def test_all_else_is_read_as_it_stands() -> None:
    for sentence in ("Paris|Paris|paris", "Paris|Paris", "Bilbao", "exit|exit", "Exit!|exit|exit!", "I|i"):
        text, *words = sentence.split("|")
        assert read(text, "en", *words).casing == "unchanged"
    for text in ("Exit here", "iPhone", "McDonald", "出口", ""):
        assert read(text, "en", "exit", "exit here", "iphone", "mcDonald", "出口", "").casing == "unchanged"


@pytest.mark.parametrize(
    ("source", "decoded", "target", "written"),
    [
        ("Exit", "sortie de secours", "fr", "Sortie de secours"),
        ("Permission", "izin", "tr", "İzin"),
        ("Exit", "出口", "zh", "出口"),
        ("Exit", "", "fr", ""),
        ("Monday", "lundi", "fr", "lundi"),
        ("NO PARKING", "Parken verboten", "de", "PARKEN VERBOTEN"),
        ("FERME\u0301", "closed", "en", "CLOSED"),
        ("DOOR NOT OPEN", "Kapı açık değil", "tr", "KAPI AÇIK DEĞİL"),
        ("MAIL a@b.com", "mail an 217", "de", "MAIL AN a@b.com"),
        ("Mail {name}", "Mail an", "de", "Mail an {name}"),
        ("Mail a@exam\u00adple.de", "Mail an 217", "de", "Mail an a@example.de"),
        ("Run `a\ud800b`", "Starte 217", "de", "Starte `a\ufffdb`"),
        ("Run `a\tb\u2028c\x85d`", "Starte 217", "de", "Starte `a b c d`"),
        ("Run `a\u202fb`", "Starte 217", "de", "Starte `a\u202fb`"),
        ("Run `a\u2028b` so\u00adon", "Starte 217", "de", "Starte `a b`"),
    ],
)
def test_a_translation_gets_the_casing_and_the_kept_strings_of_its_source(
    source: str, decoded: str, target: str, written: str
) -> None:
    assert read(source, "en", "exit", "permission", "closed").finish(decoded, target) == written


def test_the_beginning_of_a_translation_gets_the_casing() -> None:
    assert read("MAIL A LETTER", "en").restore_casing("mail a let", "de") == "MAIL A LET"


@given(text=st.text())
def test_what_was_read_is_what_the_tokenizer_makes_of_the_raw_text(text: str, tokenizer: Tokenizer) -> None:
    found = SourceSentence.read(text, ("en", "fr"), tokenizer)
    without, _ = without_tags(text)
    if found.casing == "unchanged" and not found.kept:
        assert found.ids == tuple(tokenizer.encode(without, target_language="fr"))
    assert found.cleaned == clean(without)


IN_CAPITALS = [
    *(
        "NO PARKING",
        "FERMÉ LE LUNDI",
        "WO IST DIE STRAßE?",
        "¿DÓNDE ESTÁ?",
        "ЗАКРЫТО",
        "CALL 112 NOW!!",
        "EXIT",
    ),
    *("LA 1ª PLANTA ESTÁ CERRADA", "EL Nº 1 DEL MUNDO"),
]
CASELESS = ["我爱你", "我在IBM工作。", "他买了一台TV和DVD，很大。", "أحبك", "شركة IBM و NASA"]
ABBREVIATIONS = ["", "BMW", "USA 2026", "I", "A B C", "No parking", "USA is big", "B2B", "12:30"]


def test_an_abbreviation_is_no_sentence_in_capitals_nor_is_a_script_without_them() -> None:
    assert list(filter(is_in_capitals, [*IN_CAPITALS, *CASELESS, *ABBREVIATIONS])) == IN_CAPITALS


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


@pytest.mark.parametrize(
    ("text", "keep", "terms", "kept"),
    [
        ("Say שלום or привет", [], ["שלום"], ["привет"]),
        ("Say как дела, or так", [], ["дела"], ["как", "так"]),
        ("Use Node.js 2.0 and C++, see https://x.org/C++", [], ["Node.js 2.0", "C++"], ["https://x.org/C++"]),
        ("COVID-19, A4 or A5", ["A4"], ["COVID-19", "A4"], ["A4", "A5"]),
        ("1,234,567 km, 2.5 kg or /my/kg", [], ["km", "kg"], ["1,234,567", "/my/kg"]),
        ("5 kg or kg", ["5 kg"], ["kg"], ["5 kg"]),
        ("COVID-19 IS BAD AT 5 KM AND a@b.org", [], ["covid-19"], ["a@b.org"]),
    ],
)
def test_a_term_is_translated_as_the_glossary_says_unless_it_is_to_be_kept(
    text: str, keep: list[str], terms: list[str], kept: list[str]
) -> None:
    glossary = Glossary({term: f"so {term}" for term in terms})
    found = SourceSentence.read(text, ("en", "fr"), Pieces(), keep, glossary)  # type: ignore[arg-type]
    assert [term.source for term in found.terms] == [term for term in terms if term not in keep]
    assert [string.text for string in found.kept] == kept


@pytest.mark.parametrize(("target", "ids"), [("en", "我爱 iPhone 和 Tom。"), ("ja", "我爱iPhone和Tom。")])
def test_a_latin_word_in_chinese_is_read_apart_for_a_language_with_spaces(target: str, ids: str) -> None:
    found = SourceSentence.read("我爱iPhone和Tom。", ("zh", target), Pieces())  # type: ignore[arg-type]
    assert found.ids == tuple(Pieces().encode(ids))
