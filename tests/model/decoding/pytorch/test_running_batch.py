import torch

from model.decoding.pytorch.running_batch import SlotLengths
from model.network.decoder_state import StepShape
from tests.model.decoding.slots import admitted

RUNNING, SETTLED, BROKEN = [True, False], [False, False], [False, True]


def test_which_slots_are_done_and_how_long_the_others_are() -> None:
    lengths = SlotLengths(4)
    slots = {0: 2, 1: 9, 3: 9}
    lengths.assign(
        list(slots),
        [admitted(strategy="greedy", max_length=most, length=3 + slot) for slot, most in slots.items()],
    )
    assert lengths.step_shape(4) == StepShape(4, 1, 6)
    first, second, third = (lengths.start_step(4) for _ in range(3))
    assert lengths.done(first, torch.tensor([RUNNING, RUNNING, SETTLED, RUNNING])) == []  # slot 2 is empty
    assert lengths.done(second, torch.tensor([SETTLED, SETTLED, BROKEN, BROKEN])) == [0, 1, 3]
    assert [lengths.longest([slot]) for slot in range(4)] == [2, 3, 0, 3]
    lengths.clear([3])
    assert lengths.step_shape(4) == StepShape(4, 4, 4)
    assert lengths.step_shape(1) == StepShape(1, 1, 3)  # a slot at its maximum length does not count
    assert not lengths.may_advance(1)
    lengths.assign([0], [admitted(strategy="greedy", max_length=1)])
    assert lengths.done(third, torch.tensor([SETTLED] * 4)) == [1]  # slot 0 is another's now
    assert (lengths.longest([0]), lengths.may_advance(1)) == (0, True)
