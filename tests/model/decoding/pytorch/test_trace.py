import pytest
import torch

from model.decoding.pytorch.backpointers import SlotTrace, Trace, common_beginning
from model.decoding.pytorch.search.protocol import Choice, Ending
from tests.model.decoding.slots import CPU

WEIGHTS = [torch.tensor([[1.0, 0.0], [0.0, 1.0]])] * 2


def two_steps() -> Trace:
    """Slot 1: step 0 gives lanes tokens 4, 5; step 1 both continue lane 1 with tokens 6, 7."""
    trace, done = Trace(2, 2, 3, CPU), torch.tensor([False, False])
    for position, (tokens, parents) in enumerate((([4, 5], [0, 0]), ([6, 7], [1, 1]))):
        tokens_NK = torch.tensor([[9, 9], tokens])
        choice = Choice(tokens_NK, torch.tensor([[0, 1], parents]), -tokens_NK / 8, done)
        trace.record(torch.tensor([0, position]), choice)
    return trace


def of_slot(trace: Trace, slot: int, length: int = 2, *, attention: bool = False) -> SlotTrace:
    lanes = trace.record_of(torch.tensor([slot]), length)[0].tolist()
    return SlotTrace.read(lanes, WEIGHTS if attention else [])


def test_a_hypothesis_is_read_back_through_its_parents() -> None:
    found = of_slot(two_steps(), 1).hypothesis(Ending(-3.0, 2, 0, -0.5))
    assert found.token_ids == (5, 6)
    assert found.token_log_probabilities == (-0.625, -0.75, -0.5)
    assert found.log_probability == -1.875
    assert (found.score, found.finished, found.alignment) == (-3.0, True, None)


def test_an_earlier_ending_and_an_unfinished_one() -> None:
    record = of_slot(two_steps(), 1)
    early = record.hypothesis(Ending(-1.0, 1, 0, -0.5))
    assert (early.token_ids, early.finished) == ((4,), True)
    empty = record.hypothesis(Ending(-1.0, 0, 1, -0.5))
    assert (empty.token_ids, empty.token_log_probabilities) == ((), (-0.5,))
    cut = record.hypothesis(Ending(-1.0, 2, 1, None))
    assert (cut.token_ids, cut.finished, cut.token_log_probabilities) == ((5, 7), False, (-0.625, -0.875))


def test_attention_is_that_of_the_lane_before_the_step() -> None:
    found = of_slot(two_steps(), 1, attention=True).hypothesis(Ending(-3.0, 2, 0, None))
    assert found.alignment == ((1.0, 0.0), (0.0, 1.0))


def test_lanes_that_stay_are_their_own_parents_and_log_probabilities_are_exact() -> None:
    trace = Trace(1, 2, 2, CPU)
    exact = torch.tensor([[-0.1, -1e-7]])
    choice = Choice(torch.tensor([[4, 2**40]]), None, exact, torch.tensor([False]))
    trace.record(torch.tensor([0]), choice)
    record = of_slot(trace, 0, 1)
    assert (record.tokens, record.parents) == ([[4], [2**40]], [[0], [1]])
    assert record.log_probs == [[n] for n in exact[0].tolist()]


def test_a_slot_that_moved_keeps_its_record() -> None:
    trace = two_steps()
    before = of_slot(trace, 1)
    trace.move(torch.tensor([1]), torch.tensor([0]))
    assert of_slot(trace, 0) == before


@pytest.mark.parametrize(
    ("rows", "shared"),
    [
        ([], ()),
        ([(1, 2)], (1, 2)),
        ([(1, 2, 3), (1, 2, 4)], (1, 2)),
        ([(1, 2), (1,)], (1,)),
        ([(1,), (2,)], ()),
        ([(1,), ()], ()),
    ],
)
def test_a_common_beginning(rows: list[tuple[int, ...]], shared: tuple[int, ...]) -> None:
    assert common_beginning(rows) == shared
