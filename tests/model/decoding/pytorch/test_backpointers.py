import torch
from hypothesis import given
from hypothesis import strategies as st

from model.decoding.pytorch.backpointers import Backpointers, SlotBackpointers, TokenHistory
from model.decoding.pytorch.search.step import Choice
from tests.model.decoding.networks import PAD
from tests.model.decoding.slots import CPU


def common_suffix(one: list[int], other: list[int]) -> int:
    length = 0
    while length < min(len(one), len(other)) and one[-1 - length] == other[-1 - length]:
        length += 1
    return length


pairs = st.tuples(st.integers(4, 5), st.integers(4, 5))
parents = st.tuples(st.integers(0, 1), st.integers(0, 1))


@given(st.lists(st.tuples(pairs, parents), min_size=1, max_size=9))
def test_history_follows_the_parents_and_agreement_is_the_common_end_of_the_past_and_the_whole(
    steps: list[tuple[tuple[int, int], tuple[int, int]]],
) -> None:
    history, rows = TokenHistory(1, 2, 10, PAD, CPU), [list[int](), list[int]()]
    history.clear(torch.tensor([0]))
    for position, (tokens, parents) in enumerate(steps):
        history.record(torch.tensor([position]), torch.tensor([tokens]), torch.tensor([parents]))
        rows = [[*rows[parent], token] for parent, token in zip(parents, tokens, strict=True)]
    for number, row in enumerate(rows):
        assert history.tokens(1)[0, number].tolist() == [*row, *[PAD] * (10 - len(row))]
        expected = [common_suffix(row[:place], row) for place in range(len(row))]
        assert history.agreement(1)[0, number, : len(row)].tolist() == expected


def test_rows_that_stay_are_their_own_parents_and_log_probabilities_are_exact() -> None:
    backpointers = Backpointers(1, 2, 2, CPU)
    exact = torch.tensor([[-0.1, -1e-7]])
    choice = Choice(torch.tensor([[4, 2**40]]), None, exact, torch.tensor([False]))
    backpointers.record(torch.tensor([0]), choice)
    found = SlotBackpointers.unpack(backpointers.packed(torch.tensor([0]), 1)[0])
    assert (found.tokens, found.parents) == ([[4], [2**40]], [[0], [1]])
    assert found.log_probs == [[n] for n in exact[0].tolist()]
