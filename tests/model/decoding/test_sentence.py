import dataclasses
import random

import pytest

from model.config import TransformerConfig
from model.decode_request import MAX_BEAM_SIZE, Phrase
from model.decoding.sentence import Sentence, check_source
from model.errors import InputError, TextTooLongError
from tests.model.decoding.networks import BOS, EOS, PAD, request

CONFIG = TransformerConfig(source_vocab_size=8, target_vocab_size=9, max_positions=12)


def test_length_bounds_are_absolute_relative_and_what_fits() -> None:
    absolute = Sentence.admit(request((4, 5, EOS), min_length=2, max_length=5), CONFIG)
    assert (absolute.shortest, absolute.longest) == (2, 5)
    options = {"min_length_ratio": 0.5, "max_length_ratio": 1.5, "max_length_offset": 2}
    relative = Sentence.admit(request((4,) * 6, **options), CONFIG)
    assert (relative.shortest, relative.longest) == (3, 11)
    assert Sentence.admit(request((4,) * 6), CONFIG).longest == 12
    options = {"min_length": 9, "max_length_ratio": 1.0, "max_length_offset": 1}
    raised = Sentence.admit(request((4,) * 3, **options), CONFIG)
    assert (raised.shortest, raised.longest) == (9, 9)


def test_numbers_that_32_bits_do_not_hold_are_the_nearest_that_they_do() -> None:
    extreme = Sentence.admit(request((4, EOS), strategy="sample", temperature=1e-60, top_k=2**63), CONFIG)
    assert (extreme.temperature, extreme.top_k) == (2.0**-126, 2**31 - 1)
    ordinary = Sentence.admit(request((4, EOS), strategy="sample", temperature=0.7, top_k=5), CONFIG)
    assert (ordinary.temperature, ordinary.top_k) == (0.7, 5)


def test_it_says_what_it_may_occupy() -> None:
    beam = Sentence.admit(request((4, 5, EOS), beam_size=4, max_length=5), CONFIG)
    assert (beam.rows, beam.kv_slots) == (4, 3 + 4 * 5)


def test_sentences_of_one_request_are_two() -> None:
    asked = request((4, 5, EOS))
    assert Sentence.admit(asked, CONFIG) != Sentence.admit(asked, CONFIG)


def test_a_seed_is_the_one_asked_for_or_a_fresh_one_whatever_the_program_seeds() -> None:
    assert Sentence.admit(request((4, EOS), strategy="sample", seed=0), CONFIG).seed == 0
    drawn = set()
    for _ in range(3):
        random.seed(1)
        drawn.add(Sentence.admit(request((4, EOS), strategy="sample"), CONFIG).seed)
    assert len(drawn) == 3
    assert all(0 <= seed < 2**63 for seed in drawn)


def test_a_prefix_leaves_room_for_eos() -> None:
    assert Sentence.admit(request((4,), prefix=(5, 6), max_length=3), CONFIG).longest == 3
    with pytest.raises(
        TextTooLongError, match=r"`prefix_ids` is over the limit max_length - 1: 3, at most 2"
    ):
        Sentence.admit(request((4,), prefix=(5, 6, 7), max_length=3), CONFIG)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ((), "`source_ids` must hold at least one token"),
        ((PAD,), r"`source_ids` must hold ids below 8 other than \[0\], but has 0 instead"),
        ((4, 8), "but has 8 instead"),
        ((4, -1), "but has -1 instead"),
    ],
)
def test_sources_the_encoder_cannot_read_are_refused(source: tuple[int, ...], message: str) -> None:
    check_source((4, 1, BOS, EOS), CONFIG)
    with pytest.raises(InputError, match=message):
        check_source(source, CONFIG)


@pytest.mark.parametrize(
    ("phrases", "problem"),
    [
        ((((4,),),) * 17, "at most 16 phrases, but has 17"),
        ((((4,) * 100,), ((5,) * 29,)), "at most 128 tokens, but has 129"),
        (((),), "a spelling of at least one token"),
        ((((4,), ()),), "a spelling of at least one token"),
        ((((4, EOS),),), "`phrases` must hold ids below 9"),
    ],
)
def test_phrases_that_cannot_be_decoded_are_refused(phrases: tuple[Phrase, ...], problem: str) -> None:
    asked = dataclasses.replace(request((4, EOS)), phrases=phrases)
    with pytest.raises(InputError, match=problem):
        Sentence.admit(asked, CONFIG)


def test_word_parts_are_told_of_every_token() -> None:
    asked = dataclasses.replace(request((4, EOS)), word_parts=bytes(8))
    with pytest.raises(InputError, match="`word_parts` must have 9 bytes or none, but has 8"):
        Sentence.admit(asked, CONFIG)


@pytest.mark.parametrize(
    ("options", "phrases", "beams"),
    [
        ({"strategy": "greedy"}, 1, 4),
        ({"strategy": "sample", "num_hypotheses": 6}, 1, 12),
        ({"beam_size": 2}, 3, 4),
        ({"beam_size": 4}, 1, 8),
        ({"beam_size": 9}, 9, 9),
        ({"beam_size": 3, "num_hypotheses": 3}, 2, 6),
        ({"beam_size": 40, "num_hypotheses": 40}, 1, MAX_BEAM_SIZE),
    ],
)
def test_phrases_are_searched_by_beams(options: dict[str, object], phrases: int, beams: int) -> None:
    asked = dataclasses.replace(request((4, EOS), **options), phrases=(((4,),),) * phrases)
    assert (asked.options.strategy, asked.options.rows) == ("beam", beams)
