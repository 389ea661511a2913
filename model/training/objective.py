"""ⓔ Label-smoothed cross entropy, summed over the real tokens of a batch.

Shapes: M rows (N sentences × T target positions), V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_ROWS_AT_ONCE = 256
"""Rows of logits turned into float32 at a time: 256 × 8,000 × 4 bytes stay in the cache."""


@dataclass(frozen=True)
class SummedLoss:
    """The loss of a batch before it is divided by its number of tokens.

    Attributes:
        smoothed: Scalar, what is differentiated, in nats.
        cross_entropy: Scalar without gradient, −log P of the reference tokens, in nats.
    """

    smoothed: Tensor
    cross_entropy: Tensor


def label_smoothed_loss(
    logits_NTV: Tensor, labels_NT: Tensor, *, smoothing: float, pad_id: int, vocab_size: int
) -> SummedLoss:
    """−Σ_v q(v) log p(v), summed over all labels that are not padding.

    q gives 1 − ε to the reference token, ε / (V − 2) to every other token but padding, and nothing
    to padding, as in the Annotated Transformer. It differs from the KL divergence to q by a constant.

    Args:
        logits_NTV: Scores; ids from `vocab_size` on may be −inf.
        labels_NT: Reference tokens, `pad_id` where there is none.
        smoothing: ε; 0 is cross entropy.
        pad_id: The label that does not count.
        vocab_size: V, the real ids, without the rows that pad the vocabulary.
    """
    labels_M = labels_NT.flatten()
    losses = _SmoothedCrossEntropy.apply(
        logits_NTV.reshape(-1, logits_NTV.shape[-1]), labels_M, smoothing, pad_id, vocab_size
    )
    return SummedLoss(smoothed=losses[0], cross_entropy=losses[1].detach())


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Loss and gradient in one pass over the logits, a few rows at a time.

    The gradient, softmax(z) − q, is known as soon as the loss is: computing it at once spares a
    second pass over the largest tensor of a training step and its float32 copy.
    """

    @staticmethod
    def forward(
        ctx: Any, logits_MV: Tensor, labels_M: Tensor, smoothing: float, pad_id: int, vocab_size: int
    ) -> tuple[Tensor, Tensor]:
        gradient_MV = torch.empty_like(logits_MV) if ctx.needs_input_grad[0] else None
        smoothed = logits_MV.new_zeros((), dtype=torch.float32)
        plain = logits_MV.new_zeros((), dtype=torch.float32)
        rows_at_once = _ROWS_AT_ONCE if logits_MV.device.type == "cpu" else len(logits_MV)
        for start in range(0, len(logits_MV), max(rows_at_once, 1)):
            rows = slice(start, start + rows_at_once)
            labels = labels_M[rows]
            logs = logits_MV[rows, :vocab_size].float().log_softmax(-1)
            real = labels != pad_id
            reference = logs.gather(-1, labels[:, None])[:, 0]
            others = logs.sum(-1) - reference - logs[:, pad_id]
            share = smoothing / max(vocab_size - 2, 1)
            smoothed -= (((1 - smoothing) * reference + share * others) * real).sum()
            plain -= (reference * real).sum()
            if gradient_MV is not None:
                slope = logs.exp_().sub_(share)
                slope[:, pad_id] += share
                slope.scatter_add_(-1, labels[:, None], (share - 1 + smoothing) * torch.ones_like(slope[:, :1]))
                slope.mul_(real[:, None])
                gradient_MV[rows, :vocab_size] = slope
                gradient_MV[rows, vocab_size:] = 0
        ctx.save_for_backward(gradient_MV)
        ctx.mark_non_differentiable(plain)
        return smoothed, plain

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None, None, None]:
        (gradient_MV,) = ctx.saved_tensors
        return gradient_MV * upstream[0].to(gradient_MV.dtype), None, None, None, None
