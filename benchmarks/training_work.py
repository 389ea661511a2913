"""How much a training step has to compute at least, and how fast a device multiplies: its share of the peak.

Shapes: N sentences.
"""

import time
from collections.abc import Callable

import torch

from model.config import TransformerConfig
from model.training.data.batches import Batch

_FORWARD_AND_BACKWARD = 3
"""A product's gradient takes two products as large as itself."""
_SIDES = {"cpu": 1024, "cuda": 8192}
_TRIES = 8


def operations(config: TransformerConfig, batch: Batch) -> float:
    """Multiplications and additions of the matrix products of a step, padding and recomputation left out.

    Norms, softmax, dropout and the optimiser are not counted, as is usual for MFU (Chowdhery et al. 2022,
    https://arxiv.org/abs/2204.02311, appendix B).
    """
    sources_N = (batch.source_NS != config.pad_id).sum(-1).double()
    targets_N = (batch.labels_NT != config.pad_id).sum(-1).double()
    width, inner = config.model_dim, config.ffn_dim
    feed_forward, attention = 2 * width * inner, 4 * width**2
    encoder = sources_N * (attention + feed_forward) + 2 * sources_N**2 * width
    to_self = targets_N * attention + targets_N * (targets_N + 1) * width
    to_source = 2 * width**2 * (targets_N + sources_N) + 2 * targets_N * sources_N * width
    decoder = to_self + to_source + targets_N * feed_forward
    products_N = (
        config.num_encoder_layers * encoder
        + config.num_decoder_layers * decoder
        + targets_N * width * config.padded(config.target_vocab_size)
    )
    return float(2 * _FORWARD_AND_BACKWARD * products_N.sum())


def peak(device: torch.device, precision: str) -> float:
    """Multiplications and additions a second of a large matrix product, with the threads that are set."""
    side, numbers = _SIDES[device.type], getattr(torch, precision)
    one, other = (torch.randn(side, side, device=device).to(numbers) for _ in range(2))
    seconds = min(_seconds(lambda: one @ other, device) for _ in range(_TRIES))
    return 2 * side**3 / seconds


def wait(device: torch.device) -> None:
    """Until the device has done all it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _seconds(run: Callable[[], object], device: torch.device) -> float:
    wait(device)
    before = time.perf_counter()
    run()
    wait(device)
    return time.perf_counter() - before
