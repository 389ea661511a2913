"""Batches for the training benchmark."""

from pathlib import Path

import pytest

from benchmarks.pairs import corpus_lengths, pair_batches, usual_lengths
from benchmarks.shapes import SHAPES
from model.text.tokenizer import Tokenizer

CONFIG = SHAPES["tiny"]
LENGTHS = usual_lengths(seed=1)


def test_batches_are_padded_pairs_within_the_budget() -> None:
    for batch in pair_batches(CONFIG, 5, max_tokens=300, seed=1, lengths=LENGTHS).batches:
        assert batch.source_NS.numel() + batch.labels_NT.numel() <= 300
        assert batch.num_source_tokens == int((batch.source_NS != CONFIG.pad_id).sum())
        assert batch.num_target_tokens == int((batch.labels_NT != CONFIG.pad_id).sum())
        assert (batch.labels_NT == CONFIG.eos_id).sum(-1).tolist() == [1] * len(batch.labels_NT)
        shifted, labels = batch.decoder_input_NT[:, 1:], batch.labels_NT[:, :-1]
        real = batch.labels_NT[:, 1:] != CONFIG.pad_id
        assert shifted[real].equal(labels[real])
        assert (batch.decoder_input_NT[:, 0] == CONFIG.decoder_start_id).all()


def test_sorting_by_length_saves_padding() -> None:
    pairs = pair_batches(CONFIG, 1, max_tokens=1000, seed=1, lengths=LENGTHS)
    assert 0 < pairs.padding_share < 0.2 < pairs.unsorted_padding_share < 1


@pytest.mark.parametrize("count", [1, 250])
def test_there_are_as_many_as_asked_for_and_the_same_for_the_same_seed(count: int) -> None:
    lengths = LENGTHS[0][:300], LENGTHS[1][:300]
    first, second = (
        pair_batches(CONFIG, count, max_tokens=200, seed=1, lengths=lengths).batches for _ in range(2)
    )
    assert len(first) == count
    assert first[-1].source_NS.equal(second[-1].source_NS)


def test_lengths_are_those_of_a_text(tmp_path: Path, tiny_tokenizer_folder: Path) -> None:
    (tmp_path / "text.tsv").write_text("Good morning.\tBonjour.\nThank you.\tMerci.\n")
    sources, targets = corpus_lengths(tmp_path / "text.tsv", tiny_tokenizer_folder)
    tokenizer = Tokenizer.load(tiny_tokenizer_folder)
    assert sources[1] == len(tokenizer.encode("Thank you.", target_language="fr"))
    assert targets[0] == max(3, len(tokenizer.encode_target("Bonjour.")))
