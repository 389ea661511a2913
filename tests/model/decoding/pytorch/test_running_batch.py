import torch

from model.decoding.pytorch.running_batch import SlotLengths
from model.network.decoder_state import StepShape
from tests.model.decoding.slots import admitted

RUNNING, SETTLED, BROKEN = [False, False], [True, False], [False, True]


def test_which_slots_are_done_and_how_long_the_others_are() -> None:
    lengths = SlotLengths(4)
    for slot, longest in ((0, 2), (1, 9), (3, 9)):
        lengths.assign(slot, admitted(strategy="greedy", max_length=longest, length=3 + slot))
    assert lengths.step_shape(4) == StepShape(4, 1, 6)
    assert lengths.advance(torch.tensor([RUNNING, RUNNING, SETTLED, RUNNING])) == []  # slot 2 is empty
    assert lengths.advance(torch.tensor([RUNNING, SETTLED, BROKEN, BROKEN])) == [0, 1, 3]
    assert [lengths.length(slot) for slot in range(4)] == [2, 2, 0, 2]
    lengths.clear(3)
    assert lengths.step_shape(4) == StepShape(4, 3, 4)
    assert lengths.step_shape(1) == StepShape(1, 3, 3)
    lengths.assign(0, admitted(strategy="greedy", max_length=1))
    assert lengths.length(0) == 0
    assert lengths.advance(torch.tensor([RUNNING])) == [0]
