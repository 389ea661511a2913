"""⑤ Sampling: one uniform number a token, turned into a token by the inverse of the distribution.

The number is a function of the sentence's seed, the lane and the position, and the tokens are laid
out in the order of the vocabulary: neither depends on the rest of the batch.

Shapes: N slots, K lanes, V vocabulary.
"""

import torch
from torch import Tensor

from model.decoding.pytorch.search.protocol import Step
from model.decoding.pytorch.search.truncation import truncated_weights
from model.decoding.random_numbers import (
    FIRST_MULTIPLIER,
    GOLDEN_GAMMA,
    LANE_STRIDE,
    SECOND_MULTIPLIER,
)


def draw(step: Step) -> Tensor:
    """A token for every lane, (N, K), from the tempered and truncated distribution."""
    weights_NKV = truncated_weights(step.ranking_NKV, step.options, step.demands.ranks)
    cumulated_NKV = weights_NKV.cumsum(2)
    numbers_NK = uniform_numbers(step.options.seed_N, step.positions_N, weights_NKV.shape[1])
    target_NK1 = numbers_NK[..., None] * cumulated_NKV[:, :, -1:]
    tokens_NK1 = torch.searchsorted(cumulated_NKV, target_NK1, right=True)
    # Only a row without a number has no such place; what it chooses is caught as that.
    return tokens_NK1.squeeze(2).clamp_max(weights_NKV.shape[2] - 1)


def uniform_numbers(seed_N: Tensor, positions_N: Tensor, lanes: int) -> Tensor:
    """`random_numbers.uniform` of every slot and lane at once, (N, K); int64 wraps as it must."""
    lanes_K = torch.arange(lanes, device=seed_N.device)
    places_NK = lanes_K * LANE_STRIDE + positions_N[:, None] + 1
    bits_NK = seed_N[:, None] + places_NK * _signed(GOLDEN_GAMMA)
    bits_NK = (bits_NK ^ _shifted(bits_NK, 30)) * _signed(FIRST_MULTIPLIER)
    bits_NK = (bits_NK ^ _shifted(bits_NK, 27)) * _signed(SECOND_MULTIPLIER)
    bits_NK = bits_NK ^ _shifted(bits_NK, 31)
    return _shifted(bits_NK, 40).float() / 2**24


def _signed(word: int) -> int:
    """The int64 with the bits of an unsigned word."""
    return word - 2**64 if word >= 2**63 else word


def _shifted(bits: Tensor, count: int) -> Tensor:
    """Shift right; zeros come in, not the sign."""
    shifted: Tensor = (bits >> count) & (2 ** (64 - count) - 1)
    return shifted
