"""ⓔ Model FLOPs utilisation: the operations of an update, and the peak speed of the device.

As in Chowdhery et al. 2022 (https://arxiv.org/abs/2204.02311, appendix B), only matrix products count,
without padding and without recomputation. The peak is measured, because devices seldom reach that of their
data sheet.
"""

import time
from collections.abc import Callable

import torch

from model.config import TransformerConfig
from model.training.data.batches import Batch

_FORWARD_AND_BACKWARD = 3
"""The backward pass of a matrix product takes two products of the same size."""
SIDES = {"cpu": 512, "cuda": 8192}
"""Sides of matrices that are multiplied at full speed: they fit a cache, or fill a GPU."""
_TRIES = 8


def operations_of_pair(config: TransformerConfig, source_length: float, target_length: float) -> float:
    """Multiplications and additions of training on one pair with these lengths in tokens."""
    width, heads = config.model_dim, config.heads_dim
    feed_forward, attention = (3 if config.gated_ffn else 2) * width * config.ffn_dim, 4 * width * heads
    encoder = source_length * (attention + feed_forward + 2 * source_length * heads)
    to_itself = target_length * (attention + (target_length + 1) * heads)
    if config.decoder_memory == "ssru":
        to_itself = target_length * 2 * width**2
    to_source = 2 * heads * (width * (target_length + source_length) + target_length * source_length)
    if not config.num_encoder_layers:
        to_source = 0
    products = (
        config.num_encoder_layers * encoder
        + config.num_decoder_layers * (to_itself + to_source + target_length * feed_forward)
        + target_length * width * config.padded(config.target_vocab_size)
    )
    return 2 * _FORWARD_AND_BACKWARD * products


def operations_of_batch(config: TransformerConfig, batch: Batch) -> float:
    """Multiplications and additions of a batch; slightly too low, as its pairs count as equally long."""
    rows = len(batch.labels_NT)
    return rows * operations_of_pair(config, batch.num_source_tokens / rows, batch.num_target_tokens / rows)


def measured_peak(device: torch.device, precision: str) -> float:
    """Multiplications and additions per second of a large matrix product, with the current threads.

    Takes less than a tenth of a second.
    """
    side, numbers = SIDES[device.type], getattr(torch, precision)
    generator = torch.Generator(device).manual_seed(0)  # leaves the run's generators untouched
    one, other = (torch.randn(side, side, device=device, generator=generator).to(numbers) for _ in range(2))
    return 2 * side**3 / min(_seconds(lambda: one @ other, device) for _ in range(_TRIES))


def wait_for(device: torch.device) -> None:
    """Wait until the device has finished its queued operations."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _seconds(run: Callable[[], object], device: torch.device) -> float:
    wait_for(device)
    before = time.perf_counter()
    run()
    wait_for(device)
    return time.perf_counter() - before
