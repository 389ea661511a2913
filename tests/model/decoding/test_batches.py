from hypothesis import given
from hypothesis import strategies as st

from model.decoding.batches import plan_batches
from model.decoding.sentence import Sentence
from tests.model.decoding.networks import request


def sentence(length: int, lanes: int = 1) -> Sentence:
    return Sentence(request((4,) * length, beam_size=lanes), shortest=0, longest=10)


sentence_lists = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 5)), max_size=30).map(
    lambda rows: [sentence(length, lanes) for length, lanes in rows]
)


@given(sentence_lists, st.integers(1, 200))
def test_batches_hold_every_sentence_once_within_the_budget(sentences: list[Sentence], budget: int) -> None:
    batches = plan_batches(sentences, budget)
    assert sum(map(len, batches)) == len(sentences)
    assert {s for batch in batches for s in batch} == set(sentences)
    for batch in batches:
        cost = len(batch) * batch[0].options.lanes * max(s.source_length for s in batch)
        assert cost <= budget or len(batch) == 1
        assert len({s.options.lanes for s in batch}) == 1


def test_near_lengths_share_a_batch() -> None:
    batches = plan_batches([sentence(length) for length in (2, 9, 3, 10)], 20)
    assert [[s.source_length for s in batch] for batch in batches] == [[10, 9], [3, 2]]


def test_no_sentences_make_no_batch() -> None:
    assert plan_batches([], 10) == []
