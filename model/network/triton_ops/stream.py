"""The embedding of a step, and the addition to the residual stream with the norm after it: a kernel each.

Shapes: N slots, K hypotheses, C positions, V vocabulary, M model dim.
"""

from typing import cast

import torch
from torch import Tensor, nn

from model.config import NormForm
from model.network.triton_ops import operator


def embed(
    tokens_NK: Tensor, weight_VM: Tensor, scale: float, positions_N: Tensor, added_CM: Tensor | None
) -> Tensor:
    """The sum scale · weight[token] + added[position], (N, K, M).

    Args:
        tokens_NK: Tokens.
        weight_VM: Their vectors.
        scale: Factor of the vectors.
        positions_N: Position of each slot; one beyond the last of `added_CM` counts as the last.
        added_CM: What each position adds; None for nothing.
    """
    return _embed(tokens_NK, weight_VM, scale, positions_N, added_CM)


@operator("embed(Tensor tokens, Tensor weight, float scale, Tensor positions, Tensor? added) -> Tensor")
def _embed(
    tokens_NK: Tensor, weight_VM: Tensor, scale: float, positions_N: Tensor, added_CM: Tensor | None
) -> Tensor:
    from triton import next_power_of_2

    from model.network.triton_ops import kernels

    dim = weight_VM.shape[1]
    states_NKM = weight_VM.new_empty(*tokens_NK.shape, dim)
    kernels.embed[(tokens_NK.numel(),)](
        tokens_NK.contiguous(),
        weight_VM,
        positions_N,
        weight_VM if added_CM is None else added_CM,
        states_NKM,
        scale,
        1 if added_CM is None else len(added_CM),
        DIM=dim,
        WIDTH=tokens_NK.shape[1],
        HAS_ADDED=added_CM is not None,
        BLOCK_M=next_power_of_2(dim),
    )
    return states_NKM


def add_norm(
    stream: Tensor, update: Tensor | None, norm: nn.Module, form: NormForm, *, is_fused: bool
) -> tuple[Tensor, Tensor]:
    """The sum stream + update, and its norm.

    Args:
        stream: (…, M).
        update: As `stream`, and overwritten by the fused kernel; None adds nothing.
        norm: A norm of this form.
        form: What the norm computes.
        is_fused: Whether to use the Triton kernel.
    """
    if not is_fused:
        stream = stream if update is None else stream + update
        return stream, norm(stream)
    epsilon = cast(float, norm.eps if isinstance(norm, nn.LayerNorm) else norm.epsilon)
    weight, bias = cast(Tensor, norm.weight), cast(Tensor | None, norm.bias)
    normed = _add_norm(stream, update, weight, bias, epsilon, form)
    return (stream if update is None else update), normed


@operator(
    "add_norm(Tensor stream, Tensor(a!)? update, Tensor weight, Tensor? bias, float epsilon, str form)"
    " -> Tensor"
)
def _add_norm(
    stream: Tensor, update: Tensor | None, weight: Tensor, bias: Tensor | None, epsilon: float, form: str
) -> Tensor:
    from triton import next_power_of_2

    from model.network.triton_ops import kernels

    stream, normed = stream.contiguous(), torch.empty_like(stream, memory_format=torch.contiguous_format)
    dim = stream.shape[-1]
    kernels.add_norm[(stream.numel() // dim,)](
        stream,
        stream if update is None else update,
        weight,
        weight if bias is None else bias,
        normed,
        epsilon,
        DIM=dim,
        FORM=form,
        HAS_UPDATE=update is not None,
        HAS_BIAS=bias is not None,
        BLOCK_M=next_power_of_2(dim),
    )
    return normed
