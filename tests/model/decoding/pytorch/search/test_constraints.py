import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from model.config import TransformerConfig
from model.decoding.pytorch.backpointers import TokenHistory
from model.decoding.pytorch.search.constraints import Constraints
from model.decoding.pytorch.slot_options import ActiveFeatures
from model.decoding.sentence import Sentence
from tests.model.decoding.networks import BOS, EOS, PAD, UNK, VOCAB, request
from tests.model.decoding.slots import CONFIG, CPU, admitted, option_rows
from tests.model.shortlists import shortlist_of

WIDTH = 2


def scores(slots: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(slots, WIDTH, VOCAB, generator=generator).log_softmax(2)


def rank(
    batch: Sequence[Sentence],
    before: Tensor,
    past: Sequence[Sequence[int]] = (),
    *,
    config: TransformerConfig = CONFIG,
    never_produced: Sequence[int] = (),
) -> Tensor:
    """Log-probabilities to choose by after each sentence has produced its past, in both hypotheses."""
    past = past or [()] * len(batch)
    slots_N = torch.arange(len(batch))
    constraints = Constraints(len(batch), 16, config, CPU, never_produced)
    history = TokenHistory(len(batch), WIDTH, 16, PAD, CPU)
    constraints.assign(slots_N, batch)
    history.clear(slots_N)
    positions_N = torch.tensor([len(row) for row in past])
    for position in range(max(len(row) for row in past)):
        tokens = [row[min(position, len(row) - 1)] if row else PAD for row in past]
        tokens_NK = torch.tensor(tokens)[:, None].expand(-1, WIDTH)
        history.record(positions_N.clamp_max(position), tokens_NK, None)
    return constraints.apply(
        before, positions_N, history, option_rows(batch), ActiveFeatures.union(map(ActiveFeatures.of, batch))
    )


def forbidden(ranking_NKV: Tensor, slot: int = 0, row: int = 0) -> set[int]:
    return {token for token, s in enumerate(ranking_NKV[slot, row].tolist()) if s == -math.inf}


def test_padding_and_bos_are_never_produced_but_the_unknown_token_is() -> None:
    ranking = rank([admitted()], scores(1))
    assert forbidden(ranking) == {PAD, BOS}
    assert UNK not in forbidden(ranking)


def test_what_the_engine_is_told_is_never_produced_but_eos_always_may_be() -> None:
    ranking = rank([admitted(), admitted()], scores(2), never_produced=(7, EOS))
    assert [forbidden(ranking, slot) for slot in range(2)] == [{PAD, BOS, 7}] * 2


def test_a_start_token_that_is_eos_can_still_end_a_sentence() -> None:
    config = TransformerConfig(
        source_vocab_size=VOCAB, target_vocab_size=VOCAB, bos_id=EOS, decoder_start_id=EOS
    )
    assert forbidden(rank([admitted()], scores(1), config=config)) == {PAD}


def test_what_is_not_forbidden_keeps_its_number() -> None:
    before = scores(1)
    ranking = rank([admitted(suppress_ids=[7], min_length=5)], before.clone())
    is_kept = ranking > -math.inf
    assert torch.equal(ranking[is_kept], before[is_kept])


def test_suppressed_ids_are_each_slots_own() -> None:
    batch = [admitted(suppress_ids=[UNK, 9, 10**6]), admitted(), admitted(suppress_ids=[4])]
    ranking = rank(batch, scores(3))
    assert [forbidden(ranking, slot, 1) - {PAD, BOS} for slot in range(3)] == [{UNK, 9}, set(), {4}]


def test_whoever_takes_a_slot_is_free_of_what_bound_the_one_before() -> None:
    constraints, slots_N = Constraints(1, 16, CONFIG, CPU), torch.tensor([0])
    for sentence in (admitted(suppress_ids=[7], prefix=(8,)), admitted()):
        constraints.clear(slots_N)
        constraints.assign(slots_N, [sentence])
    everything = ActiveFeatures(independent=True, prefixes=True, suppressed=True)
    history, before = TokenHistory(1, WIDTH, 16, PAD, CPU), scores(1)
    options = option_rows([admitted()])
    ranking = constraints.apply(before, torch.tensor([0]), history, options, everything)
    assert forbidden(ranking) == {PAD, BOS}


def test_eos_waits_for_the_least_length_of_each_slot_at_its_own_position() -> None:
    batch = [admitted(min_length=3), admitted(), admitted(min_length=3)]
    for produced in range(5):
        ranking = rank(batch, scores(3), [(4,) * produced, (4,) * produced, (4, 4, 4)])
        assert (EOS in forbidden(ranking)) == (produced + 1 < 3)
        assert EOS not in forbidden(ranking, slot=1)
        assert EOS not in forbidden(ranking, slot=2)


@pytest.mark.parametrize(
    ("size", "past", "banned"),
    [
        (1, (5, 6, 5), {5, 6}),
        (2, (5, 6, 7, 5), {6}),
        (2, (5, 6, 5, 7, 5), {6, 7}),
        (3, (5, 6, 7, 8, 5, 6), {7}),
        (3, (5, 6), set()),
        (0, (5, 5, 5), set()),
    ],
)
def test_no_ngram_is_repeated(size: int, past: tuple[int, ...], banned: set[int]) -> None:
    batch = [admitted(), admitted(no_repeat_ngram_size=size), admitted(no_repeat_ngram_size=4)]
    ranking = rank(batch, scores(3), [past, past, ()])
    assert forbidden(ranking, slot=1) == {PAD, BOS} | banned
    assert forbidden(ranking, slot=0) == forbidden(ranking, slot=2) == {PAD, BOS}


def test_repetition_is_penalised_once_however_often_it_occurs() -> None:
    before, batch = scores(2), [admitted(repetition_penalty=1.5), admitted()]
    reported = before.clone()
    ranking = rank(batch, reported, [(5, 6, 5), (5, 6, 5)])
    assert ranking is not reported
    expected = before.clone()
    expected[0, :, [5, 6]] *= 1.5
    torch.testing.assert_close(ranking[:, :, EOS:], expected[:, :, EOS:])
    assert torch.equal(reported[:, :, EOS:], before[:, :, EOS:])


def test_a_prefix_wins_over_everything_and_keeps_its_number() -> None:
    before = scores(2)
    options = {"suppress_ids": [7], "repetition_penalty": 2.0, "no_repeat_ngram_size": 1}
    batch = [admitted(prefix=(7, 7), **options), admitted()]
    ranking = rank(batch, before.clone(), [(7,), (7,)])
    assert forbidden(ranking) == set(range(VOCAB)) - {7}
    assert torch.equal(ranking[0, :, 7], before[0, :, 7])
    assert forbidden(ranking, slot=1) == {PAD, BOS}


def test_after_the_prefix_the_search_is_free() -> None:
    assert forbidden(rank([admitted(prefix=(7,))], scores(1), [(7,)])) == {PAD, BOS}


def test_a_shortlist_leaves_its_own_sentence_only_its_candidates() -> None:
    sentence = Sentence.admit(request((5, EOS)), CONFIG, shortlist_of([EOS], [[7, 9]] * VOCAB))
    constraints = Constraints(2, 16, CONFIG, CPU)
    constraints.assign(torch.arange(2), [sentence, admitted()])
    before = scores(2)
    features = ActiveFeatures.union([ActiveFeatures.of(sentence), ActiveFeatures.of(admitted())])
    restricted = constraints.restrict(before.clone(), features)
    assert forbidden(restricted) == set(range(VOCAB)) - {EOS, 7, 9}
    assert torch.equal(restricted[0, :, 7], before[0, :, 7])
    assert torch.equal(restricted[1], before[1])
    constraints.clear(torch.tensor([0]))
    assert torch.equal(constraints.restrict(before.clone(), features), before)
