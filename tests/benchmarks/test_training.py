"""The training benchmark: its batches, its count of operations, and its command."""

from pathlib import Path

import pytest

from benchmarks.training import main, pair_batches
from benchmarks.weights import SHAPES
from tests.benchmarks.conftest import run

CONFIG = SHAPES["tiny"]


def test_batches_are_padded_pairs_within_the_budget() -> None:
    for batch in pair_batches(CONFIG, 5, max_tokens=300, seed=1)[0]:
        assert batch.source_NS.numel() + batch.labels_NT.numel() <= 300
        assert batch.num_source_tokens == int((batch.source_NS != CONFIG.pad_id).sum())
        assert batch.num_target_tokens == int((batch.labels_NT != CONFIG.pad_id).sum())
        assert (batch.labels_NT == CONFIG.eos_id).sum(-1).tolist() == [1] * len(batch.labels_NT)
        shifted, labels = batch.decoder_input_NT[:, 1:], batch.labels_NT[:, :-1]
        real = batch.labels_NT[:, 1:] != CONFIG.pad_id
        assert shifted[real].equal(labels[real])
        assert (batch.decoder_input_NT[:, 0] == CONFIG.decoder_start_id).all()


def test_sorting_by_length_saves_padding() -> None:
    _, padding_share = pair_batches(CONFIG, 1, max_tokens=1000, seed=1)
    assert 0 < padding_share < 0.2


def test_batches_are_the_same_for_the_same_seed() -> None:
    first, second = (pair_batches(CONFIG, 3, max_tokens=200, seed=1)[0] for _ in range(2))
    assert len(first) == 3
    assert first[-1].source_NS.equal(second[-1].source_NS)


@pytest.mark.usefixtures("here")
def test_trainers_begin_with_the_same_loss(tmp_path: Path) -> None:
    report = run(main, tmp_path, "--shape", "tiny", "--max-tokens", "200", "--threads", "1", name="small")
    losses = [result["loss"] for result in report["results"]]
    assert len(losses) == 4
    assert losses == pytest.approx([losses[0]] * 4, rel=1e-4)
    assert all(tokens > 0 for result in report["results"] for tokens in result["tokens"])
    assert any(note.startswith("Padding of tiny") for note in report["notes"])
