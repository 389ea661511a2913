"""Batches for the training benchmark."""

import pytest

from benchmarks.pairs import pair_batches
from benchmarks.shapes import SHAPES

CONFIG = SHAPES["tiny"]


def test_batches_are_padded_pairs_within_the_budget() -> None:
    for batch in pair_batches(CONFIG, 5, max_tokens=300, seed=1).batches:
        assert batch.source_NS.numel() + batch.labels_NT.numel() <= 300
        assert batch.num_source_tokens == int((batch.source_NS != CONFIG.pad_id).sum())
        assert batch.num_target_tokens == int((batch.labels_NT != CONFIG.pad_id).sum())
        assert (batch.labels_NT == CONFIG.eos_id).sum(-1).tolist() == [1] * len(batch.labels_NT)
        shifted, labels = batch.decoder_input_NT[:, 1:], batch.labels_NT[:, :-1]
        real = batch.labels_NT[:, 1:] != CONFIG.pad_id
        assert shifted[real].equal(labels[real])
        assert (batch.decoder_input_NT[:, 0] == CONFIG.decoder_start_id).all()


def test_sorting_by_length_saves_padding() -> None:
    pairs = pair_batches(CONFIG, 1, max_tokens=1000, seed=1)
    assert 0 < pairs.padding_share < 0.2 < pairs.unsorted_padding_share < 1


@pytest.mark.parametrize("count", [1, 250])
def test_there_are_as_many_as_asked_for_and_the_same_for_the_same_seed(count: int) -> None:
    first, second = (pair_batches(CONFIG, count, max_tokens=200, seed=1).batches for _ in range(2))
    assert len(first) == count
    assert first[-1].source_NS.equal(second[-1].source_NS)
