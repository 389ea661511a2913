import pytest
import torch

from model.decoding.search.protocol import Choice, Ending
from model.decoding.trace import Trace

CPU = torch.device("cpu")
DONE = torch.tensor([False, False])


def two_steps(*, with_attention: bool) -> Trace:
    """Slot 1: step 0 gives lanes tokens 4, 5; step 1 both continue lane 1 with tokens 6, 7."""
    trace = Trace(2, 2, 3, CPU)
    for position, (tokens, parents) in enumerate((([4, 5], [0, 0]), ([6, 7], [1, 1]))):
        tokens_NK = torch.tensor([[9, 9], tokens])
        log_probs_NK = -tokens_NK.float()
        choice = Choice(tokens_NK, torch.tensor([[0, 1], parents]), log_probs_NK, DONE)
        weights = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]] * 2) if with_attention else None
        trace.record(position, choice, weights)
    return trace


def test_a_hypothesis_is_read_back_through_its_parents() -> None:
    record = two_steps(with_attention=False).of_slots([1], 2)[0]
    found = record.hypothesis(Ending(-3.0, 2, 0, -0.5), source_length=2, with_alignment=False)
    assert found.token_ids == (5, 6)
    assert found.token_log_probabilities == (-5.0, -6.0, -0.5)
    assert found.log_probability == -11.5
    assert (found.score, found.finished, found.alignment) == (-3.0, True, None)


def test_an_earlier_ending_and_an_unfinished_one() -> None:
    record = two_steps(with_attention=False).of_slots([1], 2)[0]
    early = record.hypothesis(Ending(-1.0, 1, 0, -0.5), source_length=2, with_alignment=False)
    assert (early.token_ids, early.finished) == ((4,), True)
    empty = record.hypothesis(Ending(-1.0, 0, 1, -0.5), source_length=2, with_alignment=False)
    assert (empty.token_ids, empty.token_log_probabilities) == ((), (-0.5,))
    cut = record.hypothesis(Ending(-1.0, 2, 1, None), source_length=2, with_alignment=False)
    assert (cut.token_ids, cut.finished, cut.token_log_probabilities) == ((5, 7), False, (-5.0, -7.0))


def test_attention_is_that_of_the_lane_before_the_step() -> None:
    record = two_steps(with_attention=True).of_slots([1], 2)[0]
    found = record.hypothesis(Ending(-3.0, 2, 0, None), source_length=1, with_alignment=True)
    assert found.alignment == ((1.0,), (0.0,))


@pytest.mark.parametrize("with_attention", [False, True])
def test_kept_slots_keep_their_record(with_attention: bool) -> None:
    trace = two_steps(with_attention=with_attention)
    before = trace.of_slots([1], 2)[0]
    trace.keep(torch.tensor([1]))
    after = trace.of_slots([0], 2)[0]
    assert (after.tokens, after.parents, after.log_probs) == (before.tokens, before.parents, before.log_probs)
    assert [step.tolist() for step in after.attention] == [step.tolist() for step in before.attention]
