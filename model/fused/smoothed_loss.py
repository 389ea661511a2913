"""Label-smoothed cross entropy straight from the logits, without a float32 copy of them.

Shapes: M rows, V vocabulary.
"""

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from model.native.operators import LossRows, Operators


class _Context(FunctionCtx):
    """What autograd hands from forward to backward."""

    saved_tensors: tuple[Tensor, ...]
    rows: LossRows
    operators: Operators


class FusedSmoothedLoss(torch.autograd.Function):
    """The sums over all rows whose label is not padding: smoothed loss and cross entropy, in nats.

    Takes logits (M, V), labels (M), ε, ε / (V − 2), the id of padding and the operators. Only the
    normaliser of each row is kept for the gradient, which is written in the type of the logits.
    """

    @staticmethod
    def forward(
        ctx: _Context,
        logits_MV: Tensor,
        labels_M: Tensor,
        share: float,
        other: float,
        pad_id: int,
        operators: Operators,
    ) -> tuple[Tensor, Tensor]:
        """Two scalars in float32, the second without gradient; IndexError for a label that is no id."""
        _require_ids(labels_M, logits_MV.shape[1])
        logits_MV = logits_MV if logits_MV.stride(1) == 1 else logits_MV.contiguous()
        labels_M = labels_M.contiguous()
        normalisers_M = torch.empty(len(labels_M))
        rows = LossRows(
            logits=logits_MV.data_ptr(),
            labels=labels_M.data_ptr(),
            normalisers=normalisers_M.data_ptr(),
            row_stride=logits_MV.stride(0),
            rows=len(logits_MV),
            vocabulary=logits_MV.shape[1],
            pad_id=pad_id,
            share=share,
            other=other,
            is_bfloat16=logits_MV.dtype == torch.bfloat16,
            threads=torch.get_num_threads(),
        )
        smoothed, cross_entropy = map(torch.tensor, operators.smoothed_loss(rows))
        ctx.save_for_backward(logits_MV, labels_M, normalisers_M)
        ctx.rows, ctx.operators = rows, operators
        ctx.mark_non_differentiable(cross_entropy)
        return smoothed, cross_entropy

    @staticmethod
    def backward(ctx: _Context, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of the logits."""
        logits_MV = ctx.saved_tensors[0]
        gradient_MV = torch.empty(logits_MV.shape, dtype=logits_MV.dtype)
        ctx.operators.smoothed_loss_gradient(ctx.rows, float(upstream[0]), gradient_MV.data_ptr())
        return gradient_MV, None, None, None, None, None


def _require_ids(labels_M: Tensor, vocabulary: int) -> None:
    """Reading beyond a row of logits would end the process, or worse."""
    lowest, highest = map(int, labels_M.aminmax()) if len(labels_M) else (0, 0)
    if lowest < 0 or highest >= vocabulary:
        raise IndexError(f"labels must be ids from 0 to {vocabulary - 1}, but go from {lowest} to {highest}")
