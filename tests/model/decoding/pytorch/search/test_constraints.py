import math
from collections.abc import Sequence

import torch

from model.config import TransformerConfig
from model.decoding.pytorch.backpointers import TokenHistory
from model.decoding.pytorch.search.constraints import Constraints
from model.decoding.pytorch.slot_options import ActiveFeatures
from model.decoding.sentence import Sentence
from tests.model.decoding.networks import BOS, EOS, PAD, UNK, VOCAB
from tests.model.decoding.slots import CONFIG, CPU, admitted, option_rows


def forbidden(
    *sentences: Sentence, config: TransformerConfig = CONFIG, never_produced: Sequence[int] = ()
) -> set[int]:
    """The tokens that the last of some sentences, which have one slot in turn, may not begin with."""
    constraints, slots_N = Constraints(1, 16, config, CPU, never_produced), torch.tensor([0])
    for sentence in sentences:
        constraints.clear(slots_N)
        constraints.assign(slots_N, [sentence])
    features = ActiveFeatures.union(map(ActiveFeatures.of, sentences))
    history, options = TokenHistory(1, 1, 16, PAD, CPU), option_rows(sentences[-1:])
    ranking_NKV = constraints.apply(torch.zeros(1, 1, VOCAB), torch.tensor([0]), history, options, features)
    return {token for token, score in enumerate(ranking_NKV[0, 0].tolist()) if score == -math.inf}


def test_whoever_takes_a_slot_is_free_of_what_bound_the_one_before() -> None:
    assert forbidden(admitted(suppress_ids=[7], prefix=(8,)), admitted()) == {PAD, BOS}


def test_an_id_beyond_the_vocabulary_forbids_nothing() -> None:
    assert forbidden(admitted(suppress_ids=[UNK, 9, 10**6])) == {PAD, BOS, UNK, 9}


def test_what_the_engine_is_told_is_never_produced_but_eos_always_may_be() -> None:
    assert forbidden(admitted(), never_produced=(7, EOS)) == {PAD, BOS, 7}


def test_a_start_token_that_is_eos_can_still_end_a_sentence() -> None:
    config = TransformerConfig(
        source_vocab_size=VOCAB, target_vocab_size=VOCAB, bos_id=EOS, decoder_start_id=EOS
    )
    assert forbidden(admitted(), config=config) == {PAD}
