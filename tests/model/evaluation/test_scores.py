"""Scores by sacreBLEU, their confidence intervals, and the BLEU of one sentence by hand."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import ConfigError
from model.evaluation import METRIC_NAMES
from model.evaluation.scores import bootstrap, check_seed, score_translations, sentence_bleu

SENTENCES = ["The cat sat on the mat.", "There is a dog in the old garden."]


def test_perfect_translations_score_a_hundred_with_their_signatures() -> None:
    scores = score_translations(SENTENCES, [SENTENCES], "en")
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


_VOCABULARY = ("the", "cat", "dog", "house", "river", "sees", "finds", "small", "old", "green", "never")
REFERENCES = [" ".join(random.Random(i).choices(_VOCABULARY, k=8)) for i in range(60)]


def damaged(share: float, seed: int) -> list[str]:
    """Translations of which so many words are wrong."""
    generator = random.Random(seed)
    return [
        " ".join("wrong" if generator.random() < share else word for word in reference.split())
        for reference in REFERENCES
    ]


GOOD, BAD = damaged(0.1, 1), damaged(0.4, 2)


def p_values(translations: list[str], baseline: list[str], **options: int) -> list[float | None]:
    system, _ = bootstrap(translations, [REFERENCES], "en", baseline=baseline, **options)
    return [estimate.p_value for estimate in system.values()]


def test_a_clear_difference_is_significant() -> None:
    system, baseline = bootstrap(GOOD, [REFERENCES], "en", baseline=BAD)
    assert baseline is not None
    plain = score_translations(GOOD, [REFERENCES], "en")
    assert (system["bleu"].score, system["chrf"].score) == pytest.approx((plain.bleu, plain.chrf))
    for metric in METRIC_NAMES:
        one, other = system[metric], baseline[metric]
        assert one.score > other.score + one.interval + other.interval
        assert one.p_value is not None
        assert one.p_value < 0.01
        assert other.p_value is None
        assert "bs:1000|seed:12345" in one.signature


def test_a_difference_by_chance_is_not_significant() -> None:
    bleu, _ = p_values(damaged(0.2, 3), damaged(0.2, 4))
    assert bleu is not None
    assert bleu > 0.05


def test_equal_scores_do_not_differ() -> None:
    spaced = [text.replace(" ", "  ") for text in GOOD]
    assert p_values(GOOD, GOOD, resamples=40) == p_values(spaced, GOOD, resamples=40) == [1.0, 1.0]


@pytest.mark.parametrize("seed", ["0", "7"])
def test_the_seed_decides_and_is_in_the_signature(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    texts = damaged(0.2, 3), damaged(0.2, 4)
    default, _ = bootstrap(texts[0], [REFERENCES], "en", baseline=texts[1], resamples=20)
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    once, again = (bootstrap(texts[0], [REFERENCES], "en", baseline=texts[1], resamples=20) for _ in range(2))
    assert once == again
    assert once[0]["bleu"].mean != default["bleu"].mean
    assert f"bs:20|seed:{seed}" in once[0]["bleu"].signature
    alone, _ = bootstrap(texts[0], [REFERENCES], "en", resamples=20)
    assert alone["bleu"].mean == pytest.approx(once[0]["bleu"].mean)


@pytest.mark.parametrize("seed", ["-1", "today", "1.5", ""])
def test_what_is_no_seed_is_named(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    with pytest.raises(ConfigError, match="`SACREBLEU_SEED` must be a whole number from 0 up, or none"):
        check_seed()


def test_several_references_with_gaps() -> None:
    second = [None if i % 2 else text for i, text in enumerate(GOOD)]
    two, _ = bootstrap(GOOD, [REFERENCES, second], "en", resamples=40)
    one, _ = bootstrap(GOOD, [REFERENCES], "en", resamples=40)
    assert two["bleu"].score > one["bleu"].score
    assert "nrefs:var" in two["bleu"].signature


WORDS = st.lists(st.sampled_from("abc"), max_size=6).map(" ".join)


# The tutorial's "Label A, B, C, D, E, F, prediction A, B, B, C, D": p1 = 4/5, p2 = 3/4, p3 = 1/3, p4 = 0.
BY_HAND = math.exp(1 - 6 / 5) * (4 / 5) ** (1 / 2) * (3 / 4) ** (1 / 4)


@pytest.mark.parametrize(
    ("translation", "reference", "max_order", "score"),
    [
        ("A B B C D", "A B C D E F", 2, BY_HAND),
        ("A B B C D", "A B C D E F", 3, BY_HAND * (1 / 3) ** (1 / 8)),
        ("A B B C D", "A B C D E F", 4, 0),
        ("il est", "il est calme .", 2, math.exp(1 - 4 / 2)),
        ("il est calme . .", "il est calme .", 2, (4 / 5) ** (1 / 2) * (3 / 4) ** (1 / 4)),
        ("va va va", "va !", 1, (1 / 3) ** (1 / 2)),
        ("va", "va !", 2, math.exp(1 - 2)),
        ("cours !", "va .", 2, 0),
        ("", "va !", 2, 0),
    ],
)
def test_the_bleu_of_a_sentence_is_that_by_hand(
    translation: str, reference: str, max_order: int, score: float
) -> None:
    assert sentence_bleu(translation, reference, max_order=max_order) == pytest.approx(score)


@settings(max_examples=50)
@given(WORDS, WORDS)
def test_it_is_a_share_and_1_only_for_equal_sentences_of_up_to_two_words(left: str, right: str) -> None:
    score = sentence_bleu(left, right)
    assert 0 <= score <= 1
    assert sentence_bleu(left, left) == 1
    if max(len(left.split()), len(right.split())) <= 2:
        assert (score == 1) == (left == right)
