"""BLEU of one sentence: the tutorial's own example, and values worked out by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.evaluation.scores import sentence_bleu

WORDS = st.lists(st.sampled_from("abc"), max_size=6).map(" ".join)


def test_the_example_of_the_tutorial() -> None:
    # "Label A, B, C, D, E, F, prediction A, B, B, C, D": p1 = 4/5, p2 = 3/4, p3 = 1/3, p4 = 0.
    by_hand = math.exp(1 - 6 / 5) * (4 / 5) ** (1 / 2) * (3 / 4) ** (1 / 4)
    assert sentence_bleu("A B B C D", "A B C D E F", max_order=2) == pytest.approx(by_hand)
    assert sentence_bleu("A B B C D", "A B C D E F", max_order=3) == pytest.approx(
        by_hand * (1 / 3) ** (1 / 8)
    )
    assert sentence_bleu("A B B C D", "A B C D E F", max_order=4) == 0


def test_a_translation_that_is_too_short_is_punished_and_a_longer_one_by_its_precision() -> None:
    assert sentence_bleu("il est", "il est calme .") == pytest.approx(math.exp(1 - 4 / 2))
    assert sentence_bleu("il est calme . .", "il est calme .") == pytest.approx(
        (4 / 5) ** (1 / 2) * (3 / 4) ** (1 / 4)
    )


def test_a_repeated_word_matches_as_often_as_the_reference_has_it() -> None:
    assert sentence_bleu("va va va", "va !", max_order=1) == pytest.approx((1 / 3) ** (1 / 2))


def test_a_single_word_has_no_bigrams_to_judge() -> None:
    assert sentence_bleu("va", "va !") == pytest.approx(math.exp(1 - 2))


def test_wrong_words_score_0() -> None:
    assert sentence_bleu("cours !", "va .") == 0
    assert sentence_bleu("", "va !") == 0


@given(WORDS, WORDS)
def test_it_is_a_share_and_1_only_for_equal_sentences_of_up_to_two_words(left: str, right: str) -> None:
    score = sentence_bleu(left, right)
    assert 0 <= score <= 1
    assert sentence_bleu(left, left) == 1
    if max(len(left.split()), len(right.split())) <= 2:
        assert (score == 1) == (left == right)
