import pytest
import torch

from model.decoding.pytorch.running_batch import KvAllocator, SlotLengths
from model.errors import DecodingError
from model.network.decoder_state import FIRST_KV_SLOT, ZERO_KV_SLOT, StepShape
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


def test_each_sentence_gets_exactly_what_it_may_need() -> None:
    allocator = KvAllocator(100)
    sentences = [admitted(length=5, beam_size=2, max_length=6), admitted(length=2, beam_size=2, max_length=9)]
    target_kv_NKC, source_kv_NS = map(torch.tensor, allocator.allocate(sentences, 10, 5))
    assert (tuple(target_kv_NKC.shape), tuple(source_kv_NS.shape)) == ((2, 2, 10), (2, 5))
    for slot, sentence in enumerate(sentences):
        assert (target_kv_NKC[slot] != ZERO_KV_SLOT).sum(1).tolist() == [sentence.longest] * 2
        assert (source_kv_NS[slot] != ZERO_KV_SLOT).sum() == sentence.source_length
    listed = *target_kv_NKC.flatten().tolist(), *source_kv_NS.flatten().tolist()
    allocated = [kv_slot for kv_slot in listed if kv_slot != ZERO_KV_SLOT]
    assert len(set(allocated)) == len(allocated) == sum(s.kv_slots for s in sentences)
    assert set(allocated) <= set(range(FIRST_KV_SLOT, FIRST_KV_SLOT + 100))
    assert allocator.num_free == 100 - len(allocated)
    for sentence in sentences:
        allocator.free(sentence)
    assert allocator.num_free == 100


def test_more_than_are_free_are_refused_and_none_is_taken() -> None:
    allocator = KvAllocator(20)
    asked = [admitted(length=2, strategy="greedy", max_length=longest) for longest in (4, 15)]
    with pytest.raises(DecodingError, match="20 more KV slots, not 23"):
        allocator.allocate(asked, 15, 2)
    assert allocator.num_free == 20
