import torch

from model.decoding.pytorch.running_batch import Roll
from model.network.decoder_state import Extent
from tests.model.decoding.slots import admitted

NOTHING, SETTLED, BROKEN = [False, False], [True, False], [False, True]


def test_who_is_done_and_how_far_the_others_are() -> None:
    roll = Roll(4)
    for slot, longest in ((0, 2), (1, 9), (3, 9)):
        roll.enter(slot, admitted(strategy="greedy", max_length=longest, length=3 + slot))
    assert roll.extent(4) == Extent(4, 1, 6)
    assert roll.advance(torch.tensor([NOTHING, NOTHING, SETTLED, NOTHING])) == []  # slot 2 is empty
    assert roll.advance(torch.tensor([NOTHING, SETTLED, BROKEN, BROKEN])) == [0, 1, 3]
    assert [roll.length(slot) for slot in range(4)] == [2, 2, 0, 2]
    roll.leave(3)
    assert roll.extent(4) == Extent(4, 3, 4)
    assert roll.extent(1) == Extent(1, 3, 3)


def test_a_slot_begins_anew() -> None:
    roll = Roll(1)
    roll.enter(0, admitted(strategy="greedy", max_length=5))
    roll.advance(torch.tensor([NOTHING]))
    roll.enter(0, admitted(strategy="greedy", max_length=1))
    assert roll.length(0) == 0
    assert roll.advance(torch.tensor([NOTHING])) == [0]
