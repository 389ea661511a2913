import pytest

from model.evaluation.scores import score_translations

REFERENCES = ["The cat sat on the mat.", "There is a dog in the old garden."]


def test_perfect_translations_score_a_hundred_with_their_signatures() -> None:
    scores = score_translations(REFERENCES, [REFERENCES], "en")
    assert scores.bleu == pytest.approx(100)
    assert scores.chrf == pytest.approx(100)
    assert "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp" in scores.bleu_signature
    assert "nc:6|nw:0" in scores.chrf_signature


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [
        ("zh-Hans", "tok:zh"),
        ("cmn", "tok:zh"),
        ("ja", "tok:char"),
        ("ko", "tok:char"),
        ("km", "tok:char"),
        ("fr-CA", "tok:13a"),
    ],
)
def test_languages_without_spaces_are_cut_into_characters(language: str, tokenizer: str) -> None:
    text = ["我们今天去学校。"]
    assert tokenizer in score_translations(text, [text], language).bleu_signature
