"""Dropout, the addition to the stream, and layer norm, each in one pass forward and one backward."""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from model.native.operators import DropoutAdd, DropoutStruct, NormedRows, NormGradients, Operators
from model.network.native_ops.loading import (
    LANES,
    NUMBER_TYPES,
    is_bfloat16,
    operators_for,
    require_first_derivative,
)

_WORD = 1 << 32
_INT64 = torch.iinfo(torch.int64)


def dropout_of(rate: float) -> DropoutStruct:
    """A new dropout mask, whose seed is drawn from torch's global generator."""
    threshold = min(round(rate * _WORD), _WORD - 1)
    seed = int(torch.randint(_INT64.min, _INT64.max, ())) if threshold else 0
    return DropoutStruct(seed % (1 << 64), threshold, 1 / (1 - rate) if rate < 1 else 0.0)


def dropped(update: Tensor, rate: float) -> Tensor | None:
    """Returns dropout(update); None if PyTorch has to compute it."""
    operators = operators_for(update)
    if operators is None or update.numel() % LANES:
        return None
    apply = cast(Callable[..., Tensor], _Dropped.apply)
    return apply(update, dropout_of(rate), operators)


def add_dropped(stream: Tensor, update: Tensor, rate: float) -> Tensor | None:
    """The sum stream + dropout(update), a float32 stream; None if PyTorch has to compute it."""
    operators = operators_for(stream, update)
    if operators is None or is_bfloat16(stream) or stream.shape != update.shape or update.numel() % LANES:
        return None
    apply = cast(Callable[..., Tensor], _AddDropped.apply)
    return apply(stream, update, dropout_of(rate), operators)


def norm_beside(stream: Tensor, norm: nn.Module) -> tuple[Tensor, Tensor] | None:
    """A float32 stream and its layer norm, the latter in the number type of matrix products.

    The stream is returned as well, so that the gradients of the residual path and of the norm are added in
    one pass.
    None if PyTorch has to compute it.
    """
    if not isinstance(norm, nn.LayerNorm) or not norm.elementwise_affine:
        return None
    if norm.normalized_shape != stream.shape[-1:] or stream.shape[-1] % LANES:
        return None
    operators = operators_for(stream, norm.weight)
    if operators is None or is_bfloat16(stream) or is_bfloat16(norm.weight):
        return None
    wanted = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32
    if wanted not in NUMBER_TYPES:
        return None
    apply = cast(Callable[..., tuple[Tensor, Tensor]], _NormBeside.apply)
    return apply(stream, norm.weight, norm.bias, norm.eps, wanted, operators)


def _dropped_sum(
    stream: Tensor | None, update: Tensor, dropout: DropoutStruct, dtype: torch.dtype, operators: Operators
) -> Tensor:
    update = update.contiguous()
    stream = None if stream is None else stream.contiguous()
    result = torch.empty(update.shape, dtype=dtype)
    operators.dropout_add(
        DropoutAdd(
            stream=None if stream is None else stream.data_ptr(),
            update=update.data_ptr(),
            sum=result.data_ptr(),
            size=update.numel(),
            dropout=dropout,
            update_is_bfloat16=is_bfloat16(update),
            sum_is_bfloat16=is_bfloat16(result),
            threads=torch.get_num_threads(),
        )
    )
    return result


class _DroppedContext(FunctionCtx):
    """What forward saves for backward: the mask, the type of the update, the operators."""

    rest: tuple[DropoutStruct, torch.dtype, Operators]


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _DroppedContext, update: Tensor, dropout: DropoutStruct, operators: Operators) -> Tensor:
        ctx.rest = dropout, update.dtype, operators
        return _dropped_sum(None, update, dropout, update.dtype, operators)

    @staticmethod
    def backward(ctx: _DroppedContext, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        require_first_derivative()
        return _dropped_sum(None, grad_output, *ctx.rest), None, None


class _AddDropped(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _DroppedContext, stream: Tensor, update: Tensor, dropout: DropoutStruct, operators: Operators
    ) -> Tensor:
        ctx.rest = dropout, update.dtype, operators
        return _dropped_sum(stream, update, dropout, stream.dtype, operators)

    @staticmethod
    def backward(ctx: _DroppedContext, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        require_first_derivative()
        return grad_output, _dropped_sum(None, grad_output, *ctx.rest), None, None


class _NormContext(FunctionCtx):
    """What forward saves for backward."""

    saved_tensors: tuple[Tensor, Tensor, Tensor | None, Tensor]
    epsilon: float
    operators: Operators


class _NormBeside(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _NormContext,
        stream: Tensor,
        gain: Tensor,
        shift: Tensor | None,
        epsilon: float,
        dtype: torch.dtype,
        operators: Operators,
    ) -> tuple[Tensor, Tensor]:
        rows = stream.contiguous()
        normed = torch.empty(rows.shape, dtype=dtype)
        statistics = rows.new_empty(2, rows.numel() // rows.shape[-1])
        ctx.epsilon, ctx.operators = epsilon, operators
        ctx.save_for_backward(rows, gain, shift, statistics)  # type: ignore[arg-type]
        operators.norm_rows(_normed_rows(rows, gain, shift, statistics, normed, epsilon))
        ctx.set_materialize_grads(False)
        return stream, normed

    @staticmethod
    def backward(
        ctx: _NormContext, upstream: Tensor | None, grad_output: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        require_first_derivative()
        if grad_output is None:
            return upstream, *(None,) * 5
        rows, gain, shift, statistics = ctx.saved_tensors
        grad_output = grad_output.contiguous()
        upstream = None if upstream is None else upstream.contiguous()
        of_rows, of_gain = torch.empty_like(rows), torch.empty_like(gain)
        of_shift = None if shift is None else torch.empty_like(shift)
        gradients = NormGradients(
            upstream=None if upstream is None else upstream.data_ptr(),
            rows=of_rows.data_ptr(),
            gain=of_gain.data_ptr(),
            shift=None if of_shift is None else of_shift.data_ptr(),
        )
        ctx.operators.norm_rows_gradient(
            _normed_rows(rows, gain, shift, statistics, grad_output, ctx.epsilon), gradients
        )
        return of_rows, of_gain, of_shift, None, None, None


def _normed_rows(
    rows: Tensor, gain: Tensor, shift: Tensor | None, statistics: Tensor, normed: Tensor, epsilon: float
) -> NormedRows:
    return NormedRows(
        rows_in=rows.data_ptr(),
        gain=gain.data_ptr(),
        shift=None if shift is None else shift.data_ptr(),
        normed=normed.data_ptr(),
        means=statistics[0].data_ptr(),
        factors=statistics[1].data_ptr(),
        rows=statistics.shape[1],
        width=rows.shape[-1],
        epsilon=epsilon,
        normed_is_bfloat16=is_bfloat16(normed),
        threads=torch.get_num_threads(),
    )
