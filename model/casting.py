"""⑤ What a precision is in PyTorch: floating-point types, and int8 in place of linear layers."""

from typing import TYPE_CHECKING

import torch

from model.checks import require
from model.precision import Precision
from model.quantisation import int8_works, quantise
from model.transformer import Transformer

if TYPE_CHECKING:
    from model.checkpoint import Checkpoint

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def dtype_of(precision: Precision, device: torch.device | str) -> torch.dtype:
    """The floating-point type of a network; with int8, of all that is not quantised."""
    if precision == "int8":
        return torch.float32 if torch.device(device).type == "cpu" else torch.bfloat16
    return _DTYPES[precision]


def apply_precision(network: Transformer, precision: Precision) -> Transformer:
    """Finish a network that is in `dtype_of(precision)`; int8 replaces its projections.

    Raises:
        ConfigError: If PyTorch cannot multiply int8 matrices where the network is.
    """
    if precision == "int8":
        device = next(network.parameters()).device
        others = f"auto, float32, bfloat16 or float16 on this {device.type}"
        require(int8_works(device), "precision", others, precision)
        quantise(network)
        network.state_dtype = torch.bfloat16  # beside weights of 8 bits its rounding does not count
    return network


def load_network(checkpoint: "Checkpoint", device: str, precision: Precision) -> Transformer:
    """A checkpoint's network on a device, in a precision.

    Raises:
        ConfigError: If PyTorch cannot compute so there.
    """
    network = checkpoint.network(device=device, dtype=dtype_of(precision, device))
    return apply_precision(network, precision)
