import pytest
import torch

from model.decoding.pytorch.kv_allocator import KvAllocator
from model.errors import DecodingError
from model.network.decoder_state import FIRST_KV_SLOT, ZERO_KV_SLOT
from tests.model.decoding.slots import admitted


def test_each_sentence_gets_exactly_what_it_may_need() -> None:
    allocator = KvAllocator(100)
    sentences = [
        admitted(length=5, beam_size=2, max_length=6),
        admitted(length=2, beam_size=2, max_length=9),
    ]
    target_kv_NKC, source_kv_NS = map(torch.tensor, allocator.allocate(sentences, 10, 5))
    assert (tuple(target_kv_NKC.shape), tuple(source_kv_NS.shape)) == ((2, 2, 10), (2, 5))
    for slot, sentence in enumerate(sentences):
        assert (target_kv_NKC[slot] != ZERO_KV_SLOT).sum(1).tolist() == [sentence.longest] * 2
        assert (source_kv_NS[slot] != ZERO_KV_SLOT).sum() == sentence.source_length
    listed = *target_kv_NKC.flatten().tolist(), *source_kv_NS.flatten().tolist()
    allocated = [kv_slot for kv_slot in listed if kv_slot != ZERO_KV_SLOT]
    assert len(set(allocated)) == len(allocated) == sum(s.positions for s in sentences)
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
