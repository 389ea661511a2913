"""What updates measure, and the share of the device's peak that they reach (model FLOPs utilisation).

As in Chowdhery et al. 2022 (https://arxiv.org/abs/2204.02311, appendix B), only matrix products count,
without padding and without recomputation. The peak is measured, because devices seldom reach that of their
data sheet.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.config import TransformerConfig
from model.errors import DivergenceError
from model.training.data.batches import Batch
from model.training.data.dataset import PairDataset
from model.training.train_config import TrainConfig

_FORWARD_AND_BACKWARD = 3
"""The backward pass of a matrix product takes two products of the same size."""
SIDES = {"cpu": 512, "cuda": 8192}
"""Sides of matrices that are multiplied at full speed: they fit a cache, or fill a GPU."""
_TRIES = 8
_EXPECTED_SHARE = 0.5


@dataclass(frozen=True)
class Update:
    """Measurements of one update; tensors stay on the device until they are read.

    Attributes:
        loss: Smoothed loss per target token, in nats.
        cross_entropy: −log P of the reference per target token, in nats.
        gradient_norm: L2 norm over all weights before clipping.
        learning_rate: Learning rate of this update.
        num_tokens: Source and target tokens, without padding.
        num_positions: Source and target positions, padding included.
        operations: Lower bound of the multiplications and additions in matrix products.
    """

    loss: Tensor
    cross_entropy: Tensor
    gradient_norm: Tensor
    learning_rate: float
    num_tokens: int
    num_positions: int
    operations: float


class Measurements:
    """Collects updates between two lines of the log; `read` alone waits for the device.

    Args:
        forgives_overflow: Whether an infinite gradient norm is allowed: float16's loss scaler skips such an
            update and lowers its scale.
        peak: Multiplications and additions per second that all devices reach together.
    """

    def __init__(self, *, forgives_overflow: bool, peak: float) -> None:
        self._forgives_overflow = forgives_overflow
        self._peak = peak
        self._updates: list[Update] = []
        self._first_step = 0
        self._seconds = 0.0

    def add(self, step: int, update: Update, seconds: float) -> None:
        """Add an update and the time since the previous one."""
        if not self._updates:
            self._first_step = step
        self._updates.append(update)
        self._seconds += seconds

    def read(self) -> dict[str, float] | None:
        """Means over the updates since the last call; None if there are none.

        Raises:
            DivergenceError: Naming the first step whose loss or gradient is not finite.
        """
        if not self._updates:
            return None
        started = time.monotonic()
        means = {
            name: self._mean([float(getattr(update, name)) for update in self._updates], name)
            for name in ("loss", "cross_entropy", "gradient_norm")
        }
        seconds = max(self._seconds + time.monotonic() - started, 1e-9)
        num_tokens = sum(update.num_tokens for update in self._updates)
        num_positions = sum(update.num_positions for update in self._updates)
        operations = sum(update.operations for update in self._updates)
        rate = self._updates[-1].learning_rate
        self._updates, self._seconds = [], 0.0
        return {
            **means,
            "learning_rate": rate,
            "tokens_per_second": num_tokens / seconds,
            "padding_share": round(1 - num_tokens / num_positions, 4),
            "mfu": round(operations / seconds / self._peak, 4),
        }

    def _mean(self, values: Sequence[float], name: str) -> float:
        for step, value in enumerate(values, start=self._first_step):
            if not math.isfinite(value) and not (self._forgives_overflow and name == "gradient_norm"):
                described = name.replace("_", " ")
                raise DivergenceError(f"training diverged at step {step}: the {described} is {value:g}")
        finite = [value for value in values if math.isfinite(value)]
        return sum(finite) / max(len(finite), 1)


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
    pairs = batch.num_pairs
    return pairs * operations_of_pair(
        config, batch.num_source_tokens / pairs, batch.num_target_tokens / pairs
    )


def measured_peak(device: torch.device, precision: str) -> float:
    """Multiplications and additions per second of a large matrix product, with the current threads.

    Takes less than a tenth of a second.
    """
    side, numbers = SIDES[device.type], getattr(torch, precision)
    generator = torch.Generator(device).manual_seed(0)  # leaves the run's generators untouched
    one, other = (torch.randn(side, side, device=device, generator=generator).to(numbers) for _ in range(2))
    return 2 * side**3 / min(_seconds(lambda: one @ other, device) for _ in range(_TRIES))


def expected_minutes(
    config: TrainConfig, shape: TransformerConfig, pairs: PairDataset, updates_per_epoch: float, peak: float
) -> float:
    """About how long a run will take without its validations, for an update at half of the peak.

    On idle processors updates reached 32 to 76 % of it (docs/performance.md).

    Args:
        config: The run's configuration; limits of minutes are not considered.
        shape: The network's configuration.
        pairs: What it trains on.
        updates_per_epoch: Updates of a pass over the data.
        peak: Multiplications and additions per second that all devices reach together.

    Returns:
        Infinity if neither steps nor epochs are limited.
    """
    run, weights = config.run, pairs.weights
    epochs = min(run.max_epochs or math.inf, (run.max_steps or math.inf) / updates_per_epoch)
    lengths = (
        float(np.average(sides, weights=weights)) for sides in (pairs.sources.lengths, pairs.targets.lengths)
    )
    passes = 2 if config.objective.r_drop else 1
    operations = passes * float(weights.sum()) * operations_of_pair(shape, *lengths)
    return epochs * operations / (_EXPECTED_SHARE * peak) / 60


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
