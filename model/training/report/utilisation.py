"""ⓔ How much an update has to compute at least, and how fast the device multiplies: its share of the peak.

Model FLOPs utilisation (Chowdhery et al. 2022, https://arxiv.org/abs/2204.02311, appendix B): only matrix
products count, without padding and without anything that is computed twice; norms, softmax, dropout and the
optimiser take time but are no work. The peak is measured rather than looked up: what a data sheet promises is
seldom what a card does at its temperature, or a processor beside other programs.
"""

import time
from collections.abc import Callable

import torch

from model.config import TransformerConfig
from model.training.data.batches import Batch

_FORWARD_AND_BACKWARD = 3
"""A product's gradient takes two products as large as itself."""
_SIDES = {"cpu": 512, "cuda": 8192}
"""Of matrices that run at full speed: within a cache, or on all of a GPU."""
_TRIES = 8


def operations_of_pair(config: TransformerConfig, source_length: float, target_length: float) -> float:
    """Multiplications and additions of training on one pair of so many tokens."""
    width, inner = config.model_dim, config.ffn_dim
    feed_forward, attention = 2 * width * inner, 4 * width**2
    encoder = source_length * (attention + feed_forward + 2 * source_length * width)
    to_itself = target_length * (attention + (target_length + 1) * width)
    to_source = 2 * width**2 * (target_length + source_length) + 2 * target_length * source_length * width
    if not config.num_encoder_layers:
        to_source = 0
    products = (
        config.num_encoder_layers * encoder
        + config.num_decoder_layers * (to_itself + to_source + target_length * feed_forward)
        + target_length * width * config.padded(config.target_vocab_size)
    )
    return 2 * _FORWARD_AND_BACKWARD * products


def operations_of_batch(config: TransformerConfig, batch: Batch) -> float:
    """The same of a batch, as if its pairs were equally long: a little too few, as attention grows faster."""
    rows = len(batch.labels_NT)
    return rows * operations_of_pair(config, batch.num_source_tokens / rows, batch.num_target_tokens / rows)


def measured_peak(device: torch.device, precision: str) -> float:
    """Multiplications and additions a second of a large matrix product, with the threads that are set.

    Takes less than a tenth of a second.
    """
    side, numbers = _SIDES[device.type], getattr(torch, precision)
    generator = torch.Generator(device).manual_seed(0)  # what is drawn here must not move the run's own
    one, other = (torch.randn(side, side, device=device, generator=generator).to(numbers) for _ in range(2))
    return 2 * side**3 / min(_seconds(lambda: one @ other, device) for _ in range(_TRIES))


def wait_for(device: torch.device) -> None:
    """Until the device has done all it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _seconds(run: Callable[[], object], device: torch.device) -> float:
    wait_for(device)
    before = time.perf_counter()
    run()
    wait_for(device)
    return time.perf_counter() - before
