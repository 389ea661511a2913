import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.decoding.pytorch.backpointers import Backpointers, SlotBackpointers, TokenHistory, common_prefix
from model.decoding.pytorch.search.step import Choice, FinalHypothesis
from tests.model.decoding.networks import PAD
from tests.model.decoding.slots import CPU

WEIGHTS = [torch.tensor([[1.0, 0.0], [0.0, 1.0]])] * 2


def common_suffix(one: list[int], other: list[int]) -> int:
    length = 0
    while length < min(len(one), len(other)) and one[-1 - length] == other[-1 - length]:
        length += 1
    return length


@given(st.lists(st.integers(4, 5), min_size=1, max_size=9))
def test_agreement_is_the_common_end_of_the_past_and_the_whole(tokens: list[int]) -> None:
    history = TokenHistory(1, 1, 10, PAD, CPU)
    history.clear(torch.tensor([0]))
    for position, token in enumerate(tokens):
        history.record(torch.tensor([position]), torch.tensor([[token]]), None)
    assert history.tokens(1)[0, 0].tolist() == [*tokens, *[PAD] * (10 - len(tokens))]
    expected = [common_suffix(tokens[:place], tokens) for place in range(len(tokens))]
    assert history.agreement(1)[0, 0, : len(tokens)].tolist() == expected


def test_history_follows_the_parents_and_each_slot_its_own_position() -> None:
    history = TokenHistory(2, 2, 3, PAD, CPU)
    history.clear(torch.tensor([0, 1]))
    history.record(torch.tensor([0, 0]), torch.tensor([[4, 5], [6, 7]]), None)
    history.clear(torch.tensor([1]))
    parents_NK = torch.tensor([[1, 1], [0, 1]])
    history.record(torch.tensor([1, 0]), torch.tensor([[5, 4], [8, 9]]), parents_NK)
    assert history.tokens(2).tolist() == [[[5, 5, PAD], [5, 4, PAD]], [[8, PAD, PAD], [9, PAD, PAD]]]
    assert history.agreement(1)[0, :, 1].tolist() == [1, 0]


def two_steps() -> Backpointers:
    """Slot 1: step 0 gives the rows tokens 4, 5; in step 1 both continue row 1 with tokens 6, 7."""
    backpointers, done = Backpointers(2, 2, 3, CPU), torch.tensor([False, False])
    for position, (tokens, parents) in enumerate((([4, 5], [0, 0]), ([6, 7], [1, 1]))):
        tokens_NK = torch.tensor([[9, 9], tokens])
        choice = Choice(tokens_NK, torch.tensor([[0, 1], parents]), -tokens_NK / 8, done)
        backpointers.record(torch.tensor([0, position]), choice)
    return backpointers


def of_slot(
    backpointers: Backpointers, slot: int, length: int = 2, *, attention: bool = False
) -> SlotBackpointers:
    packed_NKX = backpointers.packed(torch.tensor([slot]), length)
    return SlotBackpointers.unpack(packed_NKX[0], WEIGHTS if attention else [])


def test_a_hypothesis_is_read_back_through_its_parents() -> None:
    found = of_slot(two_steps(), 1).hypothesis(FinalHypothesis(-3.0, 2, 0, -0.5))
    assert found.token_ids == (5, 6)
    assert found.token_log_probabilities == (-0.625, -0.75, -0.5)
    assert found.log_probability == -1.875
    assert (found.score, found.finished, found.alignment) == (-3.0, True, None)


@pytest.mark.parametrize(
    ("end", "tokens", "log_probs"),
    [
        (FinalHypothesis(-1.0, 1, 0, -0.5), (4,), (-0.5, -0.5)),
        (FinalHypothesis(-1.0, 0, 1, -0.5), (), (-0.5,)),
        (FinalHypothesis(-1.0, 2, 1, None), (5, 7), (-0.625, -0.875)),
    ],
)
def test_an_earlier_end_an_empty_and_an_unfinished_one(
    end: FinalHypothesis, tokens: tuple[int, ...], log_probs: tuple[float, ...]
) -> None:
    found = of_slot(two_steps(), 1).hypothesis(end)
    assert (found.token_ids, found.token_log_probabilities) == (tokens, log_probs)
    assert found.finished is (end.eos_log_prob is not None)


def test_attention_is_that_of_the_row_before_the_step() -> None:
    found = of_slot(two_steps(), 1, attention=True).hypothesis(FinalHypothesis(-3.0, 2, 0, None))
    assert found.alignment == ((1.0, 0.0), (0.0, 1.0))


def test_rows_that_stay_are_their_own_parents_and_log_probabilities_are_exact() -> None:
    backpointers = Backpointers(1, 2, 2, CPU)
    exact = torch.tensor([[-0.1, -1e-7]])
    choice = Choice(torch.tensor([[4, 2**40]]), None, exact, torch.tensor([False]))
    backpointers.record(torch.tensor([0]), choice)
    found = of_slot(backpointers, 0, 1)
    assert (found.tokens, found.parents) == ([[4], [2**40]], [[0], [1]])
    assert found.log_probs == [[n] for n in exact[0].tolist()]


def test_a_slot_that_moved_keeps_its_backpointers() -> None:
    backpointers = two_steps()
    before = of_slot(backpointers, 1)
    backpointers.move(torch.tensor([1]), torch.tensor([0]))
    assert of_slot(backpointers, 0) == before


@pytest.mark.parametrize(
    ("sequences", "shared"),
    [
        ([], ()),
        ([(1, 2)], (1, 2)),
        ([(1, 2, 3), (1, 2, 4)], (1, 2)),
        ([(1, 2), (1,)], (1,)),
        ([(1,), (2,)], ()),
        ([(1,), ()], ()),
    ],
)
def test_a_common_prefix(sequences: list[tuple[int, ...]], shared: tuple[int, ...]) -> None:
    assert common_prefix(sequences) == shared
