"""int8 matrix products: weights by output channel, activations by row, sums exact in int32.

Every row has its own scale and integer sums have no rounding, so the result of a row does not depend on
the other rows of the batch.

Shapes: R rows, I inputs, O outputs.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

_LARGEST = 127
# Keeps the scale of a row of zeros above 0, so that it can be a divisor.
_SMALLEST_SCALE = 1e-12
# The CUDA kernel needs more than 16 rows, and widths that are multiples of 8.
_CUDA_FEWEST_ROWS = 17
_CUDA_WIDTH_MULTIPLE = 8


Rows = tuple[Tensor, Tensor]
"""int8 rows, (R, I), and the float32 scale of every row, (R, 1)."""


class Int8Linear(nn.Module):
    """y = (x_int8 · W_int8ᵀ) · scale_x · scale_W + b, in place of `nn.Linear`.

    Args:
        linear: The layer to replace.
        rows: Its weight if it is stored as int8; None rounds the layer's weight.

    Attributes:
        weight_IO: int8, already transposed.
        scale_O: float32; weight = int8 × scale.
        bias: As in the linear layer.
    """

    weight_IO: Tensor
    scale_O: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear, rows: Rows | None = None) -> None:
        super().__init__()
        weight_OI, scale_O1 = rows or quantise_rows(linear.weight.detach())
        self.register_buffer("weight_IO", weight_OI.t())
        self.register_buffer("scale_O", scale_O1[:, 0])
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())

    def forward(self, states: Tensor) -> Tensor:
        """(…, I) to (…, O), in the type of `states`."""
        rows_RI, scale_R1 = quantise_rows(states.flatten(0, -2))
        product_RO = int8_product(rows_RI, self.weight_IO).float() * scale_R1 * self.scale_O
        if self.bias is not None:
            product_RO += self.bias
        return product_RO.to(states.dtype).view(*states.shape[:-1], -1)


def quantise_rows(rows: Tensor) -> Rows:
    """Round each row to int8, symmetric about 0, so that its largest magnitude becomes 127."""
    rows = rows.float()
    scale_R1 = rows.abs().amax(-1, keepdim=True).clamp_min(_SMALLEST_SCALE) / _LARGEST
    return (rows / scale_R1).round_().to(torch.int8), scale_R1


def int8_product(rows_RI: Tensor, weight_IO: Tensor) -> Tensor:
    """Exact int32 product (R, O) of int8 matrices."""
    count = len(rows_RI)
    if rows_RI.is_cuda and count < _CUDA_FEWEST_ROWS:
        rows_RI = pad(rows_RI, (0, 0, 0, _CUDA_FEWEST_ROWS - count))
    return torch._int_mm(rows_RI, weight_IO)[:count]


@torch.no_grad()
def quantise(network: nn.Module, stored_rows: Callable[[str], Rows | None] = lambda _: None) -> None:
    """Replace every linear layer of a network, in place; for inference only.

    Embeddings of tokens are rounded in the same way, but stay floating-point tables.

    Args:
        network: A network in floating point.
        stored_rows: Returns a parameter that is stored as int8, by name; None if it is not.
    """
    for path, module in list(network.named_modules()):
        for name, child in list(module.named_children()):
            parameter = f"{path}.{name}.weight".lstrip(".")
            if isinstance(child, nn.Linear) and _fits(child):
                setattr(module, name, Int8Linear(child, stored_rows(parameter)))
            elif isinstance(child, nn.Embedding) and name == "tokens" and stored_rows(parameter) is None:
                integers, scale = quantise_rows(child.weight)
                child.weight = nn.Parameter((integers * scale).to(child.weight.dtype), requires_grad=False)


def int8_works(device: torch.device) -> bool:
    """Returns whether this build of PyTorch multiplies int8 matrices correctly on a device."""
    rows = torch.full((_CUDA_FEWEST_ROWS, 8), 3, dtype=torch.int8, device=device)
    try:
        return bool((int8_product(rows, rows[:8].t()) == 72).all())
    except RuntimeError:  # torch has no such kernel on this device
        return False


def _fits(linear: nn.Linear) -> bool:
    widths = linear.in_features, linear.out_features
    return linear.weight.device.type != "cuda" or all(width % _CUDA_WIDTH_MULTIPLE == 0 for width in widths)
