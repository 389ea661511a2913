"""Codes of languages, also in the forms of other projects, and their names."""

import pytest
from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES as M2M100
from transformers.models.mbart50.tokenization_mbart50 import FAIRSEQ_LANGUAGE_CODES as MBART50
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as NLLB

from model.text.languages import (
    LANGUAGE_NAMES,
    SHORT_CODES,
    bare_tag,
    canonical_code,
    count_words,
    gains_spaces,
    has_unspaced_sentences,
    has_unspaced_words,
    in_script_of,
    is_in_other_scripts,
    is_language_code,
    known_code,
    language_code,
    language_codes,
    language_name,
    letters_of_scripts,
)


def test_a_language_is_named_in_english() -> None:
    names = {"fr": "French", "EN-us": "English", "zh-Hans": "Chinese", "qqq": "qqq", "": ""}
    assert {code: language_name(code) for code in names} == names


def test_the_table_of_names_is_canonical() -> None:
    assert len(LANGUAGE_NAMES) >= 100
    assert all(canonical_code(code) == code for code in LANGUAGE_NAMES)
    assert len(set(LANGUAGE_NAMES.values())) == len(LANGUAGE_NAMES)


@pytest.mark.parametrize(
    ("codes", "language"),
    [
        ("en EN en-GB", "en"),
        ("zh-Hans zh_CN cmn", "zh"),
        ("pt-br", "pt"),
        ("de_DE.UTF-8", "de"),
        ("iw", "he"),
    ],
)
def test_a_code_is_reduced_to_its_language(codes: str, language: str) -> None:
    assert {canonical_code(code) for code in codes.split()} == {canonical_code(f" {language} ")} == {language}
    assert (canonical_code("auto"), canonical_code("")) == ("auto", "")


def test_spaces_between_words_and_between_sentences() -> None:
    codes = ["zh-Hans", "cmn", "JA", "th", "ko"]
    assert list(filter(has_unspaced_words, codes)) == codes[:4]
    assert list(filter(has_unspaced_sentences, codes)) == codes[:3]


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
        ("zt", "en zh", "zh"),
        ("zho_Hans", "zh zh-Hant", "zh"),
        ("pes", "fa", "fa"),
    ],
)
def test_a_code_means_a_known_one(code: str, known: str, meant: str | None) -> None:
    assert known_code(code, known.split()) == meant


@pytest.mark.parametrize(
    ("names", "code"),
    [
        ("fra_Latn fr_XX >>fra<< <2fr> __fr__ fra fre fr", "fr"),
        ("zho_Hans zh_CN cmn", "zh"),
        ("por_Latn", "pt"),
        ("pes_Arab", "fa"),
        ("iw", "he"),
        ("ns", "nso"),
        ("ceb_Latn", "ceb"),
        ("ROMANCE zxx", None),
    ],
)
def test_codes_of_other_projects_are_ours(names: str, code: str | None) -> None:
    assert set(map(language_code, names.split())) == {code}


@pytest.mark.parametrize("names", [NLLB, M2M100["m2m100"], MBART50], ids=["nllb", "m2m100", "mbart50"])
def test_every_language_has_a_code_of_its_own_and_a_name(names: list[str]) -> None:
    codes = language_codes(names)
    assert list(codes) == list(names)
    assert all(map(is_language_code, codes.values()))
    assert len({language_name(code) for code in codes.values()}) == len(set(codes.values())) == len(names)
    assert not [code for code in codes.values() if language_name(code) == code]


def test_only_names_that_differ_in_their_script_keep_it() -> None:
    names = ["zho_Hans", "zho_Hant", "kas_Arab", "kas_Deva", "srp_Cyrl", "yue_Hant"]
    assert list(language_codes(names).values()) == ["zh", "zh-Hant", "ks-Arab", "ks-Deva", "sr", "yue"]
    assert language_name("zh-Hant") == "Chinese (traditional)"


def test_a_tag_is_told_from_text() -> None:
    tags = {">>fra<<": "fra", "<2fr>": "fr", "__fr__": "fr", "fr": None, "<b>": None}
    assert {piece: bare_tag(piece) for piece in tags} == tags


def test_users_may_name_a_language_by_any_of_its_codes() -> None:
    assert all(canonical_code(long) == short for long, short in SHORT_CODES.items())
    assert not SHORT_CODES.keys() & set(SHORT_CODES.values())


IN_SCRIPT = {
    "fr": "Où est la gare ?|Where is the station?|Tom a déménagé à 東京.",
    "en": "Tom moved to 東京.",
    "ru": "Где вокзал?",
    "zh-Hans": "车站在哪里？",
    "zh": "汤姆住在New Haven。|返回 Address/Network/Interface 对象。|12:30 — 50 %",
    "ja": "駅はどこですか。",
    "ko": "역이 어디예요?",
    "xx": "Где вокзал?",
}
IN_ANOTHER_SCRIPT = {
    "fr": "Где вокзал?",
    "en": "车站在哪里？",
    "ru": "Where?",
    "cmn": "hello there my friend",
    "zh": "Where is it?|Tom lives in 华盛顿 now, doesn't he?",
}


def test_script() -> None:
    for expected, table in ((True, IN_SCRIPT), (False, IN_ANOTHER_SCRIPT)):
        for language, texts in table.items():
            for text in texts.split("|"):
                assert in_script_of(text, language) is expected, (text, language)


def test_count_words() -> None:
    counts = {"Where is it?": 3, "  Où ça ? ": 3, "车站在哪里？": 6, "我爱 Paris": 3, "": 0}
    assert {text: count_words(text) for text in counts} == counts


def test_letters_of_scripts_that_are_common() -> None:
    letters = letters_of_scripts("abcdeπ中国", at_least=2)
    assert letters.findall("Łódź, λόγος, 葡萄 12") == [*"Łódź", *"葡萄"]
    assert not letters_of_scripts("abcπ", at_least=4).search("abc")


def test_text_in_other_scripts() -> None:
    assert is_in_other_scripts("東京、2020", "en")
    assert is_in_other_scripts("ひらがな", "zh")
    for text, language in (
        ("東京 (Tokyo)", "en"),
        ("Tokyo", "zh"),
        ("中国", "ja"),
        ("Olá ʻ", "pt"),
        ("東京", "xx"),
    ):
        assert not is_in_other_scripts(text, language)
