"""y = Wx + b in bfloat16 with float32 weights, as autocast computes it, without copies of the weights.

Shapes: R rows, I inputs, O outputs.
"""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from model.native import operators as native
from model.native.operators import Operators
from model.network.native_ops.loading import operators_for, require_first_derivative

_INPUTS, _OUTPUTS = 32, 16


class Projection(nn.Linear):
    """`nn.Linear` that computes natively in training on a CPU under bfloat16 autocast."""

    def forward(self, states: Tensor) -> Tensor:
        """(…, I) to (…, O)."""
        natively = project(states, self.weight, self.bias) if self.training else None
        return super().forward(states) if natively is None else natively


def project(states: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor | None:
    """(…, I) to (…, O); None if PyTorch has to compute it."""
    if not torch.is_autocast_enabled("cpu") or torch.get_autocast_dtype("cpu") != torch.bfloat16:
        return None
    operators = operators_for(states, weight_OI)
    if operators is None or not operators.has_bfloat16_products:
        return None
    if not _is_supported(states, weight_OI, bias_O):
        return None
    apply = cast(Callable[..., Tensor], _Projection.apply)
    return apply(states.to(torch.bfloat16), weight_OI, bias_O, operators)


def _is_supported(states: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> bool:
    outputs, inputs = weight_OI.shape
    return (
        states.shape[-1] == inputs
        and states.numel() > 0
        and inputs % _INPUTS == 0
        and outputs % _OUTPUTS == 0
        and _is_plain(weight_OI)
        and (bias_O is None or (len(bias_O) == outputs and _is_plain(bias_O)))
    )


def _is_plain(weight: Tensor) -> bool:
    return weight.dtype == torch.float32 and weight.is_contiguous()


class _Context(FunctionCtx):
    """What forward saves for backward."""

    needs_input_grad: tuple[bool, ...]
    saved_tensors: tuple[Tensor, Tensor, Tensor | None]
    operators: Operators


class _Projection(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _Context, states: Tensor, weight_OI: Tensor, bias_O: Tensor | None, operators: Operators
    ) -> Tensor:
        states = states.contiguous()
        ctx.save_for_backward(states, weight_OI, bias_O)  # type: ignore[arg-type]
        ctx.operators = operators
        result = torch.empty(*states.shape[:-1], len(weight_OI), dtype=torch.bfloat16)
        operators.project(_described(states, weight_OI, bias_O), states.data_ptr(), result.data_ptr())
        return result

    @staticmethod
    def backward(ctx: _Context, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        require_first_derivative()
        states, weight_OI, bias_O = ctx.saved_tensors
        grad_output = grad_output.contiguous()
        described = _described(states, weight_OI, bias_O)
        of_states = None
        if ctx.needs_input_grad[0]:
            of_states = torch.empty_like(states)
            ctx.operators.project_gradient(described, grad_output.data_ptr(), of_states.data_ptr())
        of_weight = torch.empty_like(weight_OI)
        of_bias = None if bias_O is None else torch.empty_like(bias_O)
        ctx.operators.project_weight_gradient(
            described,
            grad_output.data_ptr(),
            states.data_ptr(),
            of_weight.data_ptr(),
            None if of_bias is None else of_bias.data_ptr(),
        )
        return of_states, of_weight, of_bias, None


def _described(states: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> native.Projection:
    outputs, inputs = weight_OI.shape
    return native.Projection(
        weight=weight_OI.data_ptr(),
        bias=None if bias_O is None else bias_O.data_ptr(),
        rows=states.numel() // inputs,
        inputs=inputs,
        outputs=outputs,
        threads=torch.get_num_threads(),
    )
