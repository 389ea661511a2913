import pytest

from model.decoding.pytorch.kv_allocator import FreeKvSlots, PooledAllocator
from model.errors import DecodingError
from model.network.decoder_state import FIRST_KV_SLOT, ZERO_KV_SLOT
from tests.model.decoding.slots import admitted


def test_no_kv_slot_is_taken_twice_until_it_is_given_back() -> None:
    free = FreeKvSlots(2, 10)
    first, second = free.take(4), free.take(6)
    assert sorted(first + second) == list(range(2, 12))
    assert len(free) == 0
    free.give_back(first)
    assert sorted(free.take(4)) == sorted(first)


def test_more_than_are_free_are_refused_and_none_is_taken() -> None:
    free = FreeKvSlots(0, 3)
    with pytest.raises(DecodingError, match="3 more KV slots, not 4"):
        free.take(4)
    assert free.take(0) == []
    assert len(free) == 3


def test_each_sentence_gets_exactly_what_it_may_need() -> None:
    free = FreeKvSlots(FIRST_KV_SLOT, 100)
    allocator = PooledAllocator(free)
    sentences = [
        admitted(length=5, beam_size=2, max_length=6),
        admitted(length=2, beam_size=2, max_length=9),
    ]
    target_kv_NKC, source_kv_NS = allocator.allocate([0, 1], sentences)
    assert (tuple(target_kv_NKC.shape), tuple(source_kv_NS.shape)) == ((2, 2, 9), (2, 5))
    for slot, sentence in enumerate(sentences):
        assert (target_kv_NKC[slot] != ZERO_KV_SLOT).sum(1).tolist() == [sentence.longest] * 2
        assert (source_kv_NS[slot] != ZERO_KV_SLOT).sum() == sentence.source_length
    listed = *target_kv_NKC.flatten().tolist(), *source_kv_NS.flatten().tolist()
    allocated = [kv_slot for kv_slot in listed if kv_slot != ZERO_KV_SLOT]
    assert len(set(allocated)) == len(allocated) == sum(s.positions for s in sentences)
    assert len(free) == 100 - len(allocated)
    allocator.free(0, sentences[0], is_broken=False)
    allocator.free(1, sentences[1], is_broken=True)
    assert len(free) == 100
