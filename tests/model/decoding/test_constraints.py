import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from model.config import TransformerConfig
from model.decoding.constraints import Constraints
from model.decoding.sentence import Sentence
from model.engines import torch_engine
from tests.model.decoding.networks import BOS, EOS, PAD, UNK, VOCAB, lively_network, request, sentences

CONFIG = TransformerConfig(source_vocab_size=VOCAB, target_vocab_size=VOCAB)
CPU = torch.device("cpu")


def admitted(*, prefix: tuple[int, ...] = (), **options: object) -> Sentence:
    return Sentence.admit(request((4, 5, EOS), prefix=prefix, **options), CONFIG)


def scores(slots: int, lanes: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(slots, lanes, VOCAB, generator=generator).log_softmax(2)


def history(*rows: tuple[int, ...], lanes: int = 2) -> Tensor:
    return torch.tensor(rows, dtype=torch.int64).view(len(rows), 1, -1).repeat(1, lanes, 1)


def forbidden(ranking_NKV: Tensor, slot: int = 0, lane: int = 0) -> set[int]:
    return {token for token, s in enumerate(ranking_NKV[slot, lane].tolist()) if s == -math.inf}


def test_padding_and_bos_are_never_produced_but_the_unknown_token_is() -> None:
    ranking = Constraints([admitted()], CONFIG, CPU).apply(scores(1), history(()))
    assert forbidden(ranking) == {PAD, BOS}
    assert UNK not in forbidden(ranking)


def test_what_the_engine_is_told_is_never_produced_but_eos_always_may_be() -> None:
    constraints = Constraints([admitted(), admitted()], CONFIG, CPU, never_produced=(7, EOS))
    ranking = constraints.apply(scores(2), history((), ()))
    assert [forbidden(ranking, slot) for slot in range(2)] == [{PAD, BOS, 7}] * 2


def test_a_start_token_that_is_eos_can_still_end_a_sentence() -> None:
    config = TransformerConfig(
        source_vocab_size=VOCAB, target_vocab_size=VOCAB, bos_id=EOS, decoder_start_id=EOS
    )
    ranking = Constraints([admitted()], config, CPU).apply(scores(1), history(()))
    assert forbidden(ranking) == {PAD}


def test_what_is_not_forbidden_keeps_its_log_probability() -> None:
    before = scores(1)
    constraints = Constraints([admitted(suppress_ids=[7], min_length=5)], CONFIG, CPU)
    ranking = constraints.apply(before.clone(), history(()))
    is_kept = ranking > -math.inf
    assert torch.equal(ranking[is_kept], before[is_kept])


def test_suppressed_ids_are_each_slots_own() -> None:
    batch = [admitted(suppress_ids=[UNK, 9, 10**6]), admitted(), admitted(suppress_ids=[4])]
    ranking = Constraints(batch, CONFIG, CPU).apply(scores(3), history((), (), ()))
    assert [forbidden(ranking, slot, 1) - {PAD, BOS} for slot in range(3)] == [{UNK, 9}, set(), {4}]


def test_eos_waits_for_the_least_length() -> None:
    batch = [admitted(min_length=3), admitted()]
    for produced in range(5):
        past = history((4,) * produced, (4,) * produced)
        ranking = Constraints(batch, CONFIG, CPU).apply(scores(2), past)
        assert (EOS in forbidden(ranking)) == (produced + 1 < 3)
        assert EOS not in forbidden(ranking, slot=1)


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
    ranking = Constraints(batch, CONFIG, CPU).apply(scores(3), history(past, past, past))
    assert forbidden(ranking, slot=1) == {PAD, BOS} | banned
    assert forbidden(ranking, slot=0) == {PAD, BOS}


def test_repetition_is_penalised_once_however_often_it_occurs() -> None:
    before = scores(2)
    batch = [admitted(repetition_penalty=1.5), admitted()]
    constraints = Constraints(batch, CONFIG, CPU)
    assert constraints.needs_history
    reported = before.clone()
    ranking = constraints.apply(reported, history((5, 6, 5), (5, 6, 5)))
    assert ranking is not reported
    expected = before.clone()
    expected[0, :, [5, 6]] *= 1.5
    assert torch.equal(ranking[:, :, EOS:], expected[:, :, EOS:])
    assert torch.equal(reported[:, :, EOS:], before[:, :, EOS:])


def test_a_prefix_wins_over_everything_and_keeps_its_log_probability() -> None:
    before = scores(2)
    options = {"suppress_ids": [7], "repetition_penalty": 2.0, "no_repeat_ngram_size": 1}
    batch = [admitted(prefix=(7, 7), **options), admitted()]
    ranking = Constraints(batch, CONFIG, CPU).apply(before.clone(), history((7,), (7,)))
    assert forbidden(ranking) == set(range(VOCAB)) - {7}
    assert torch.equal(ranking[0, :, 7], before[0, :, 7])
    assert forbidden(ranking, slot=1) == {PAD, BOS}


def test_after_the_prefix_the_search_is_free() -> None:
    ranking = Constraints([admitted(prefix=(7,))], CONFIG, CPU).apply(scores(1), history((7,)))
    assert forbidden(ranking) == {PAD, BOS}


def test_constraints_nobody_asks_for_need_no_history() -> None:
    assert not Constraints([admitted(), admitted(min_length=2)], CONFIG, CPU).needs_history


STRATEGIES = [
    {"strategy": "greedy"},
    {"beam_size": 4, "num_hypotheses": 4},
    {"strategy": "sample", "seed": 3},
]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_keeps_them(strategy: dict[str, object]) -> None:
    asked = {"suppress_ids": [8, 9], "no_repeat_ngram_size": 2, "min_length": 7, "max_length": 12}
    requests = [request(s, prefix=(5, 6), **asked, **strategy) for s in sentences(4, 5, 6, 7)]
    for result in torch_engine(lively_network()).decode(requests):
        assert isinstance(result, list)
        for tokens in (found.token_ids for found in result):
            pairs = list(pairwise(tokens))
            assert tokens[:2] == (5, 6)
            assert not {PAD, BOS, EOS, 8, 9} & set(tokens)
            assert len(pairs) == len(set(pairs))
            assert 6 <= len(tokens) <= 12
