"""Attention over whole sentences and its gradient, without copies of heads or masks.

Shapes: N sentences, Q queries, S keys, H heads, M width of all heads.
"""

import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from model.native.operators import AttentionGradients, Operators, SentenceAttention
from model.network.native_ops.loading import LANES, is_bfloat16, operators_for, require_first_derivative
from model.network.native_ops.residual import dropout_of


def attend_sentences(
    queries_NQM: Tensor,
    keys_values_NS2M: Tensor,
    num_heads: int,
    mask: Tensor | None,
    *,
    causal: bool,
    rate: float,
    scale: float | None = None,
) -> Tensor | None:
    """Joined heads (N, Q, M) of dropout(softmax(s·QKᵀ))V; None if PyTorch has to compute it.

    Args:
        queries_NQM: Queries, all heads.
        keys_values_NS2M: Keys of all heads, then values.
        num_heads: H.
        mask: (N, 1, 1, S), True for keys that are attended to; None for all keys.
        causal: Query i sees keys 0…i.
        rate: Dropout of the attention weights.
        scale: s; None for 1/√(width of a head).
    """
    operators = operators_for(queries_NQM, keys_values_NS2M)
    if operators is None or not _is_supported(queries_NQM, keys_values_NS2M, num_heads, mask, causal=causal):
        return None
    scale = scale or 1 / math.sqrt(queries_NQM.shape[-1] // num_heads)
    choices = mask, num_heads, causal, rate, scale
    apply = cast(Callable[..., Tensor], _SentenceAttention.apply)
    return apply(queries_NQM, keys_values_NS2M, *choices, operators)


def _is_supported(
    queries_NQM: Tensor, keys_values_NS2M: Tensor, num_heads: int, mask: Tensor | None, *, causal: bool
) -> bool:
    (sentences, num_queries, width), num_keys = queries_NQM.shape, keys_values_NS2M.shape[1]
    return (
        queries_NQM.dtype == keys_values_NS2M.dtype
        and keys_values_NS2M.shape == (sentences, num_keys, 2 * width)
        and width % (num_heads * LANES) == 0
        and (mask is None or (mask.dtype == torch.bool and mask.shape == (sentences, 1, 1, num_keys)))
        and not (causal and num_queries > num_keys)
    )


class _Context(FunctionCtx):
    """What forward saves for backward."""

    saved_tensors: tuple[Tensor, Tensor, Tensor | None, Tensor]
    attention: SentenceAttention
    operators: Operators


class _SentenceAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _Context,
        queries: Tensor,
        keys_values: Tensor,
        mask: Tensor | None,
        num_heads: int,
        causal: bool,
        rate: float,
        scale: float,
        operators: Operators,
    ) -> Tensor:
        queries, keys_values = queries.contiguous(), keys_values.contiguous()
        mask = None if mask is None else mask.contiguous()
        (sentences, num_queries, width), num_keys = queries.shape, keys_values.shape[1]
        padded = -(-num_keys // LANES) * LANES
        shares = queries.new_empty(sentences, num_heads, num_queries, padded, dtype=torch.float32)
        ctx.attention = SentenceAttention(
            query_stride=width,
            key_stride=2 * width,
            sentences=sentences,
            num_queries=num_queries,
            num_keys=num_keys,
            heads=num_heads,
            width=width // num_heads,
            scale=scale,
            is_causal=causal,
            dropout=dropout_of(rate),
            is_bfloat16=is_bfloat16(queries),
            threads=torch.get_num_threads(),
        )
        ctx.operators = operators
        _set_pointers(ctx.attention, queries, keys_values, mask, shares)
        ctx.save_for_backward(queries, keys_values, mask, shares)  # type: ignore[arg-type]
        joined = torch.empty_like(queries)
        operators.attend_sentences(ctx.attention, joined.data_ptr())
        return joined

    @staticmethod
    def backward(ctx: _Context, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        require_first_derivative()
        queries, keys_values, mask, shares = ctx.saved_tensors
        grad_output = grad_output.contiguous()
        # Autograd hooks may have moved the saved tensors.
        _set_pointers(ctx.attention, queries, keys_values, mask, shares)
        of_queries, of_keys_values = torch.empty_like(queries), torch.empty_like(keys_values)
        keys = of_keys_values.data_ptr()
        gradients = AttentionGradients(
            output=grad_output.data_ptr(),
            queries=of_queries.data_ptr(),
            keys=keys,
            values=keys + queries.shape[-1] * queries.element_size(),
        )
        ctx.operators.attend_sentences_gradient(ctx.attention, gradients)
        return of_queries, of_keys_values, None, None, None, None, None, None


def _set_pointers(
    attention: SentenceAttention, queries: Tensor, keys_values: Tensor, mask: Tensor | None, shares: Tensor
) -> None:
    """Set the pointers to the tensors, which must live as long as `attention` is used."""
    keys = keys_values.data_ptr()
    attention.queries, attention.keys = queries.data_ptr(), keys
    attention.values = keys + queries.shape[-1] * keys_values.element_size()
    attention.visible = None if mask is None else mask.data_ptr()
    attention.weights = shares.data_ptr()
