"""Label-smoothed cross entropy of logits, without a float32 copy of them.

Shapes: M rows, V vocabulary.
"""

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from model.native.operators import LossRows, Operators
from model.network.native_ops.loading import require_first_derivative


class _Context(FunctionCtx):
    """What forward saves for backward."""

    saved_tensors: tuple[Tensor, ...]
    rows: LossRows
    operators: Operators


class FusedSmoothedLoss(torch.autograd.Function):
    """Smoothed loss and cross entropy, summed over all rows whose label is not padding, in nats.

    Arguments: logits (M, V), labels (M), ε, ε / (V − 2), the id of padding and the operators. Only the
    normaliser of each row is saved for the gradient, which has the type of the logits.
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
        """Two scalars in float32, the second without gradient.

        Raises:
            IndexError: If a label or `pad_id` is not an id.
            ValueError: If there is not one int64 label per row.
        """
        _require_ids(labels_M, pad_id, *logits_MV.shape)
        logits_MV = logits_MV if logits_MV.stride(1) == 1 else logits_MV.contiguous()
        labels_M = labels_M.contiguous()
        normalisers_M = logits_MV.new_empty(len(labels_M), dtype=torch.float32)
        rows = LossRows(
            row_stride=logits_MV.stride(0),
            rows=len(logits_MV),
            vocabulary=logits_MV.shape[1],
            pad_id=pad_id,
            smoothing=share,
            other_probability=other,
            is_bfloat16=logits_MV.dtype == torch.bfloat16,
            threads=torch.get_num_threads(),
        )
        _set_pointers(rows, logits_MV, labels_M, normalisers_M)
        smoothed, cross_entropy = (
            torch.tensor(s, dtype=torch.float32) for s in operators.smoothed_loss(rows)
        )
        ctx.save_for_backward(logits_MV, labels_M, normalisers_M)
        ctx.rows, ctx.operators = rows, operators
        ctx.mark_non_differentiable(cross_entropy)
        return smoothed, cross_entropy

    @staticmethod
    def backward(ctx: _Context, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of the logits."""
        require_first_derivative()
        logits_MV, labels_M, normalisers_M = ctx.saved_tensors
        # Autograd hooks may have moved the saved tensors.
        _set_pointers(ctx.rows, logits_MV, labels_M, normalisers_M)
        gradient_MV = torch.empty(logits_MV.shape, dtype=logits_MV.dtype)
        ctx.operators.smoothed_loss_gradient(ctx.rows, float(upstream[0]), gradient_MV.data_ptr())
        return gradient_MV, None, None, None, None, None


def _set_pointers(rows: LossRows, logits_MV: Tensor, labels_M: Tensor, normalisers_M: Tensor) -> None:
    """Set the pointers to the tensors, which must live as long as `rows` is used."""
    rows.logits, rows.labels = logits_MV.data_ptr(), labels_M.data_ptr()
    rows.normalisers = normalisers_M.data_ptr()


def _require_ids(labels_M: Tensor, pad_id: int, rows: int, vocabulary: int) -> None:
    """Refuse labels that would make the native code read beyond the logits."""
    if labels_M.dtype != torch.int64 or len(labels_M) != rows:
        found = f"{len(labels_M)} of {labels_M.dtype}"
        raise ValueError(f"labels must be {rows} numbers of torch.int64, but are {found} instead")
    if not 0 <= pad_id < vocabulary:
        raise IndexError(f"pad_id must be an id from 0 to {vocabulary - 1}, but is {pad_id} instead")
    lowest, highest = map(int, labels_M.aminmax()) if len(labels_M) else (0, 0)
    if lowest < 0 or highest >= vocabulary:
        raise IndexError(f"labels must be ids from 0 to {vocabulary - 1}, but go from {lowest} to {highest}")
