"""ⓔ R-Drop: every pair goes through the network twice, under different dropout, and both passes are to agree.

Liang et al. 2021 (https://arxiv.org/abs/2106.14448) add to the losses of both passes, at every target
position,

    α · ½ · [KL(P₁ ‖ P₂) + KL(P₂ ‖ P₁)].

Here is half of their objective, so that losses compare with those of a single pass:

    ½ · [loss(P₁) + loss(P₂)] + α / 4 · [KL(P₁ ‖ P₂) + KL(P₂ ‖ P₁)].

Shapes: N sentences, T target positions, M rows (N × T), V vocabulary.
"""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from model.training.data.batches import Batch
from model.training.objective import Smoothing, SummedLoss, kept_gradient, label_smoothed_loss

_ROWS_AT_ONCE = 128
"""Rows of each pass turned into float32 at a time on a CPU: what is computed of them stays in the cache."""


def r_drop_loss(network: nn.Module, batch: Batch, smoothing: Smoothing, alpha: float) -> SummedLoss:
    """The objective of a batch, summed over all labels that are not padding.

    Both passes are one, of a batch twice as large.

    Args:
        network: In training, with dropout.
        batch: What it is to learn.
        smoothing: The distribution that each pass is to learn.
        alpha: α, how much agreement counts; about 5 for translation in the paper.
    """
    logits_NTV = network(torch.cat([batch.source_NS] * 2), torch.cat([batch.decoder_input_NT] * 2))
    both = label_smoothed_loss(logits_NTV, torch.cat([batch.labels_NT] * 2), smoothing)
    disagreement = symmetric_divergence(logits_NTV.flatten(0, -2), batch.labels_NT.flatten(), smoothing)
    return SummedLoss(both.smoothed / 2 + alpha / 4 * disagreement, both.cross_entropy / 2)


def symmetric_divergence(logits_MV: Tensor, labels_M: Tensor, smoothing: Smoothing) -> Tensor:
    """KL(P ‖ Q) + KL(Q ‖ P) = Σ_v (p − q)(log p − log q) in nats, summed over rows whose label is no padding.

    Args:
        logits_MV: Scores: all rows of the first pass (P), then as many of the second (Q); ids from
            `vocab_size` on do not count.
        labels_M: Of one pass; where they are `pad_id`, nothing counts.
        smoothing: Names `pad_id` and `vocab_size`.
    """
    apply = cast(Callable[..., Tensor], _SymmetricDivergence.apply)
    return apply(logits_MV, labels_M != smoothing.pad_id, smoothing.vocab_size)


class _Context(FunctionCtx):
    """What autograd hands from forward to backward."""

    saved_tensors: tuple[Tensor, ...]
    precision: torch.dtype


class _SymmetricDivergence(torch.autograd.Function):
    """Value and gradient in one pass over the logits, a few rows at a time."""

    @staticmethod
    def forward(ctx: _Context, logits_MV: Tensor, counts_M: Tensor, vocab_size: int) -> Tensor:
        ctx.precision = logits_MV.dtype
        gradient_MV = kept_gradient(logits_MV)
        total = torch.zeros((), device=logits_MV.device)
        size = len(counts_M)
        step = _ROWS_AT_ONCE if logits_MV.device.type == "cpu" else max(size, 1)
        for start in range(0, size, step):
            end = min(start + step, size)
            places = [(slice(start + pass_, end + pass_), slice(vocab_size)) for pass_ in (0, size)]
            logs_p, logs_q = (logits_MV[place].float().log_softmax(-1) for place in places)
            value_M1, *slopes_MV = _divergence(logs_p, logs_q)
            counts_M1 = counts_M[start:end, None]
            total += (value_M1 * counts_M1).sum()
            for place, slope_MV in zip(places, slopes_MV, strict=True):
                gradient_MV[place] = slope_MV * counts_M1
        ctx.save_for_backward(gradient_MV)
        return total

    @staticmethod
    def backward(ctx: _Context, *upstream: Tensor) -> tuple[Tensor, None, None]:
        gradient_MV = ctx.saved_tensors[0]
        return (gradient_MV * upstream[0].to(gradient_MV.dtype)).to(ctx.precision), None, None


def _divergence(logs_p_MV: Tensor, logs_q_MV: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each row's value (M, 1), and its gradients for the scores of P and of Q.

    With d = log p − log q, the gradient for the scores of P is p · (d − Σ p d) + p − q.
    """
    p_MV, q_MV = logs_p_MV.exp(), logs_q_MV.exp()
    d_MV = logs_p_MV - logs_q_MV
    p_to_q_M1, q_to_p_M1 = (p_MV * d_MV).sum(-1, keepdim=True), -(q_MV * d_MV).sum(-1, keepdim=True)
    slope_p_MV = p_MV * (d_MV - p_to_q_M1) + p_MV - q_MV
    slope_q_MV = q_MV * (-d_MV - q_to_p_M1) + q_MV - p_MV
    return p_to_q_M1 + q_to_p_M1, slope_p_MV, slope_q_MV
