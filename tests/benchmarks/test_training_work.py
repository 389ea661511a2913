"""The work of a training step, counted by hand and as PyTorch counts it."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.pairs import pair_batches
from benchmarks.shapes import SHAPES
from benchmarks.training_work import operations
from model.network.transformer import Transformer
from model.training.step import sequence_loss

CONFIG = SHAPES["tiny"]


def test_products_are_counted_as_pytorch_counts_them() -> None:
    # All of one length: no padding, which we leave out and PyTorch does not.
    lengths = torch.full((40,), 9).int().numpy(), torch.full((40,), 7).int().numpy()
    (batch,) = pair_batches(CONFIG, 1, max_tokens=640, seed=1, lengths=lengths).batches
    network = Transformer(CONFIG)
    with FlopCounterMode(display=False) as counter:
        sequence_loss(network.train(), batch, CONFIG, 0.1).smoothed.backward()
    # The loss computes its gradient in the forward pass; a causal half of attention is all that differs.
    assert operations(CONFIG, batch) == pytest.approx(counter.get_total_flops(), rel=0.03)
