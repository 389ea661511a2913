import torch
from hypothesis import given
from hypothesis import strategies as st

from model.decoding.pytorch.backpointers import History
from tests.model.decoding.networks import PAD
from tests.model.decoding.slots import CPU


def common_suffix(one: list[int], other: list[int]) -> int:
    length = 0
    while length < min(len(one), len(other)) and one[-1 - length] == other[-1 - length]:
        length += 1
    return length


@given(st.lists(st.integers(4, 5), min_size=1, max_size=9))
def test_agreement_is_the_common_end_of_the_past_and_the_whole(tokens: list[int]) -> None:
    history = History(1, 1, 10, PAD, CPU)
    history.seat(torch.tensor([0]))
    for position, token in enumerate(tokens):
        history.record(torch.tensor([position]), torch.tensor([[token]]), None)
    assert history.tokens(1)[0, 0].tolist() == [*tokens, *[PAD] * (10 - len(tokens))]
    expected = [common_suffix(tokens[:place], tokens) for place in range(len(tokens))]
    assert history.agreement(1)[0, 0, : len(tokens)].tolist() == expected


def test_lanes_follow_their_parents_and_slots_their_own_positions() -> None:
    history = History(2, 2, 3, PAD, CPU)
    history.seat(torch.tensor([0, 1]))
    history.record(torch.tensor([0, 0]), torch.tensor([[4, 5], [6, 7]]), None)
    history.seat(torch.tensor([1]))
    parents_NK = torch.tensor([[1, 1], [0, 1]])
    history.record(torch.tensor([1, 0]), torch.tensor([[5, 4], [8, 9]]), parents_NK)
    assert history.tokens(2).tolist() == [[[5, 5, PAD], [5, 4, PAD]], [[8, PAD, PAD], [9, PAD, PAD]]]
    assert history.agreement(1)[0, :, 1].tolist() == [1, 0]
