from model.decoding.pytorch.kv_allocator import FreeEntries, PooledLender
from model.network.decoder_state import FIRST_ENTRY, NOTHING
from tests.model.decoding.slots import admitted


def test_each_sentence_gets_exactly_what_it_may_need() -> None:
    free = FreeEntries(FIRST_ENTRY, 100)
    lender = PooledLender(free)
    sentences = [
        admitted(length=5, beam_size=2, max_length=6),
        admitted(length=2, beam_size=2, max_length=9),
    ]
    own_NKC, source_NS = lender.lend([0, 1], sentences)
    assert (tuple(own_NKC.shape), tuple(source_NS.shape)) == ((2, 2, 9), (2, 5))
    for slot, sentence in enumerate(sentences):
        assert (own_NKC[slot] != NOTHING).sum(1).tolist() == [sentence.longest] * 2
        assert (source_NS[slot] != NOTHING).sum() == sentence.source_length
    lent = [e for e in (*own_NKC.flatten().tolist(), *source_NS.flatten().tolist()) if e != NOTHING]
    assert len(set(lent)) == len(lent) == sum(s.positions for s in sentences)
    assert len(free) == 100 - len(lent)
    lender.take_back(0, sentences[0], is_broken=False)
    lender.take_back(1, sentences[1], is_broken=True)
    assert len(free) == 100
