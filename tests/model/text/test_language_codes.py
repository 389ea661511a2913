import pytest
from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES as M2M100
from transformers.models.mbart50.tokenization_mbart50 import FAIRSEQ_LANGUAGE_CODES as MBART50
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as NLLB

from model.text.language_codes import SHORT_CODES, bare_tag, is_language_code, language_code, language_codes
from model.text.languages import canonical_code, language_name


@pytest.mark.parametrize(
    ("name", "code"),
    [
        *[(name, "fr") for name in ("fra_Latn", "fr_XX", ">>fra<<", "<2fr>", "__fr__", "fra", "fre", "fr")],
        ("zho_Hans", "zh"),
        ("zh_CN", "zh"),
        ("cmn", "zh"),
        ("por_Latn", "pt"),
        ("pes_Arab", "fa"),
        ("iw", "he"),
        ("ns", "nso"),
        ("ceb_Latn", "ceb"),
        ("ROMANCE", None),
        ("zxx", None),
    ],
)
def test_codes_of_other_projects_are_ours(name: str, code: str | None) -> None:
    assert language_code(name) == code


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
    assert [bare_tag(piece) for piece in (">>fra<<", "<2fr>", "__fr__", "fr", "<b>")] == [
        "fra",
        "fr",
        "fr",
        None,
        None,
    ]


def test_users_may_name_a_language_by_any_of_its_codes() -> None:
    assert all(canonical_code(long) == short for long, short in SHORT_CODES.items())
    assert not SHORT_CODES.keys() & set(SHORT_CODES.values())
