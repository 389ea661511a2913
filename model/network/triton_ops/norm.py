"""The addition to the residual stream and the norm after it, in one kernel.

Shapes: R rows, M model dim.
"""

from typing import cast

import torch
from torch import Tensor, nn

from model.config import NormForm
from model.network.triton_ops.choice import operator


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
